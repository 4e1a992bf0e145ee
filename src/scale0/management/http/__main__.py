"""`python -m scale0.management.http`: a broker starts its page's process so."""

from scale0.management.http.process import main

main()
