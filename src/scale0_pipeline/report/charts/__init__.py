"""The charts: each takes figures and gives a drawing. They decide how things look; sections decide what is said."""
