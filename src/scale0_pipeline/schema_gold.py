"""The gold tables' columns, as text; `schema` reads it and says more."""

from __future__ import annotations

from typing import Final

_DAY = "day date the UTC day\n"
_MINUTE = _DAY + "minute_us bigint the minute's start\n"
_HOUR = _DAY + "hour_us bigint the hour's start\n"

_SERVICE = """
service         string  the service asked for
count           bigint  tasks, settled or refused
replied         bigint  those that were replied to
failed          bigint  those whose handler raised
errors          bigint  those that were settled with an error
refused         bigint  those that were never accepted
late            bigint  those whose deadline passed, in the queue (408) or in flight (504)
lost            bigint  those whose workers were lost (502)
over_limit      bigint  those turned away for want of room (429, 503)
p50_us          double  half of the accepted ones took at most this
p90_us          double  nine of ten
p99_us          double  99 of 100
p999_us         double  999 of 1,000
latency_us      bigint  sum, over accepted ones
queue_us        bigint  sum of the time without a worker
worker_us       bigint  sum of the time in workers, where they told it
network_us      bigint  sum of the time between, where it is known
network_count   bigint  tasks of which it is known
max_latency_us  bigint  the longest
request_bytes   bigint  sum
reply_bytes     bigint  sum
retries         bigint  attempts beyond the first
completeness    double  recorded rows ÷ counted rows of all brokers in the hour (of 1d: in the day); null if unknown
revision        bigint  the last batch that added to it; it rises when late events come
"""

_PARTS = """
queue_p50_us    double  half of the dispatched ones waited at most this long for a worker
queue_p99_us    double  99 of 100
worker_p50_us   double  half were in the worker at most this long, where it told
worker_p99_us   double  99 of 100
network_p50_us  double  half were on the way at most this long, where it is known
network_p99_us  double  99 of 100
"""

GOLD: Final = {
    "gold/completeness_1h": (
        "How much of what happened was recorded, by broker.",
        _HOUR
        + """
        broker        string  whose rows
        recorded      bigint  rows that arrived
        counted       bigint  rows that there were, by the broker's and its peers' counters
        completeness  double  recorded ÷ counted; null if nothing was counted
        unknown       bigint  rows of which only a peer's gauge tells
        """,
    ),
    "gold/service_1m": ("Each service, each minute.", _MINUTE + _SERVICE),
    "gold/service_1h": ("Each service, each hour.", _HOUR + _SERVICE + _PARTS),
    "gold/service_1d": ("Each service, each day.", _DAY + _SERVICE + _PARTS),
    "gold/worker_1h": (
        "Each worker and service at a broker, each hour.",
        _HOUR
        + """
        worker           string  the worker
        service          string  the service
        broker           string  the broker that it served
        count            bigint  tasks whose last attempt it had
        errors           bigint  those that were not replied to, or whose handler failed
        work_us          bigint  sum of the time in its handlers
        wait_us          bigint  sum of the time in it before that
        busy_share       double  work ÷ (slots × time there), over all its services; null if slots are unknown
        sessions         int     its sessions at the broker that touch the hour
        available_share  double  share of the hour in which it had a session there; null if none is recorded
        offset_us        double  its clock less the broker's, on average; null if not measured
        drift_ppm        double  how fast the offset grows
        """,
    ),
    "gold/edges_1h": (
        "Who asked whom, each hour. At most 10,000 names of clients and of workers, the rest are `other`.",
        _HOUR
        + """
        client      string  who asked
        service     string  for what
        worker      string  who had the last attempt, a worker or the broker it was forwarded to; null if nobody
        count       bigint  tasks
        errors      bigint  those that were not replied to, or whose handler failed
        latency_us  bigint  sum
        work_us     bigint  sum
        """,
    ),
    "gold/slo_burn": (
        "How fast each service uses up its error budget, in two windows at a time.",
        _MINUTE
        + """
        service      string   the service
        window       string   its two windows: 5m·1h, 30m·6h or 6h·3d
        threshold    double   the burn rate that alerts: 14.4, 6 or 1
        burn_short   double   bad share ÷ allowed share, in the short window up to this minute
        burn_long    double   the same in the long window
        volume       bigint   tasks in the long window
        objective    double   the share that should be good
        is_alerting  boolean  both rates reach the threshold and the volume is enough
        """,
    ),
    "gold/capacity": (
        "How many workers each service needs, by hour of the week; made anew as a whole.",
        """
        service           string   the service
        hour_of_week      int      0 is Monday, 0 h UTC
        offered_per_s     double   what was asked for, 95th percentile of its minutes
        work_us_mean      double   how long a task holds a slot
        erlangs           double   slots that are busy on average under that load
        workers_needed    int      so that few tasks wait
        workers_low       int      lower end of the interval
        workers_high      int      upper end
        workers_now       int      workers that there are; null if unknown
        slots_per_worker  double   slots of a worker, on average
        weeks             int      weeks that were looked at
        is_provisional    boolean  under two weeks
        """,
    ),
    "gold/flaps": (
        "Workers whose sessions come and go, in the hours in which they opened one.",
        _HOUR
        + """
        worker       string   the worker
        broker       string   where its last session of the hour was opened
        sessions     bigint   sessions that it opened in the hour
        penalty      double   half of what it was an hour before, and 1 for each session that it opened
        is_flapping  boolean  the penalty reaches 5
        """,
    ),
    "gold/clock_drift": (
        "Workers' clocks against their brokers'.",
        _HOUR
        + """
        participant  string   the worker
        role         string   worker
        offset_us    double   its clock less the broker's, on average
        error_us     bigint   the offset is known to within this; null if not told
        drift_ppm    double   how fast the offset grows; null with too few samples
        samples      bigint   measurements
        is_drifting  boolean  by over 100 ppm, over enough samples and by more than the error
        """,
    ),
    "gold/config_drift": (
        "Which versions of the config are in use, and how tasks fared under them.",
        _HOUR
        + """
        version     string   the version
        brokers     bigint   brokers that settled tasks under it
        workers     bigint   workers that replied under it
        tasks       bigint   tasks that brokers settled under it
        errors      bigint   those that were not replied to, or whose handler failed
        first_us    bigint   first settlement
        last_us     bigint   last settlement
        is_current  boolean  the hour's last task was settled under it
        """,
    ),
    "gold/failovers": (
        "What each fail-over did to the tasks that were in flight at its pair.",
        _DAY
        + """
        ts_us      bigint  when
        broker     string  who tells it
        partner    string  the other one of the pair
        what       string  took_over, stepped_down, handed_over, doubtful, resumed or restored
        epoch      bigint  the epoch since then
        in_flight  bigint  tasks that were received before and settled after; the sum of the next five
        replied    bigint  answered at the first attempt
        rerouted   bigint  answered by way of another broker
        retried    bigint  answered after a further attempt
        errored    bigint  settled with another error, or the handler raised
        lost       bigint  settled as lost (502)
        doubled    bigint  settlements beyond the first, around it
        outage_us  bigint  longest time without a settlement around it; null if there were none
        """,
    ),
    "gold/cost_1d": (
        "Who used how much of which service. At most 10,000 clients, the rest are `other`.",
        _DAY
        + """
        service        string  the service
        client         string  the client
        count          bigint  tasks
        work_us        bigint  time in handlers
        request_bytes  bigint  sum
        reply_bytes    bigint  sum
        share          double  of the day's time in handlers; null if there was none
        """,
    ),
    "gold/hints": (
        "Advice to the network: bounded, with its evidence, and for a time.",
        _DAY
        + """
        hint_id           string   its name
        kind              string   damp
        subject           string   the worker that it is about
        service           string   the service
        bound             double   at most so much of a service's slots is damped
        reason            string   why, in words
        evidence_from_us  bigint   start of what it is built on
        evidence_to_us    bigint   end of it
        completeness      double   of that time; null if unknown
        made_us           bigint   when it was made
        expires_us        bigint   when it ends
        mode              string   off, shadow, advise or enforce
        is_held_out       boolean  kept back, to compare with
        """,
    ),
    "gold/hint_scores": (
        "What became of hints.",
        _DAY
        + """
        hint_id    string  the hint
        scored_us  bigint  when
        predicted  double  errors of the worker in the hour, by the evidence
        observed   double  errors that it had
        control    double  mean of those whose hints were held out
        score      double  share of errors avoided, against control; null unless enforced
        verdict    string  in a word
        """,
    ),
}
