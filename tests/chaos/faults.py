"""All faults there are, by name. A module of faults enters its own when it is imported."""

from __future__ import annotations

from tests.chaos import broker_faults, disk_faults, pair_faults, participant_faults, recorder_faults
from tests.chaos.fault import FAULTS, Fault

__all__ = ["FAULTS", "Fault", "broker_faults", "disk_faults", "pair_faults", "participant_faults", "recorder_faults"]
