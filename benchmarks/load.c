/* One client and many workers in one process, as cheap as can be, so that the broker is the bottleneck and not its load.
 *
 * Usage: load PAGE RECORDS FRONTEND BACKEND native|plain WORKERS SERVING IN_FLIGHT BODY_BYTES PING_MS RATE EVENLY
 *
 * `native` speaks Scale0's wire format: the frames that need msgpack are made by load.py and read from RECORDS; TASK,
 * TASKREPLY and PING are patched copies of templates. `plain` echoes whatever comes, for zmq.proxy. Like the library it
 * asks for bundles, and sends what it has for one connection as one once the broker has said that it takes them.
 * With RATE the client sends so many tasks a second, in portions each millisecond, and IN_FLIGHT stays the most; with 0 it
 * sends the next one as soon as one is answered, and no latencies are noted. Workers below SERVING offer the service
 * that the client asks for; the others offer one that nobody asks for. A worker takes a pushed config as the library
 * does: it names the new version in its next PING. Whatever else a broker asks for, such as a move, is ignored.
 * With EVENLY 1 the PINGs of all workers are spread over the interval, with 0 each counts from when its worker was ready.
 * The numbers of PAGE's slots are in measure.py. Reading a socket always goes on until nothing is left after the last
 * send: a send may swallow the wake-up of a message that has just come.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The part of libzmq's stable interface that is used here, so that no header file need be installed. */
typedef struct { _Alignas(void *) unsigned char opaque[64]; } zmq_msg_t;
extern void *zmq_ctx_new(void);
extern int zmq_ctx_set(void *, int, int);
extern void *zmq_socket(void *, int);
extern int zmq_connect(void *, const char *);
extern int zmq_setsockopt(void *, int, const void *, size_t);
extern int zmq_getsockopt(void *, int, void *, size_t *);
extern int zmq_send(void *, const void *, size_t, int);
extern int zmq_msg_init(zmq_msg_t *);
extern int zmq_msg_recv(zmq_msg_t *, void *, int);
extern int zmq_msg_send(zmq_msg_t *, void *, int);
extern int zmq_msg_close(zmq_msg_t *);
extern void *zmq_msg_data(zmq_msg_t *);
extern size_t zmq_msg_size(const zmq_msg_t *);
extern int zmq_msg_more(const zmq_msg_t *);
enum { ZMQ_DEALER = 5, ZMQ_FD = 14, ZMQ_LINGER = 17, ZMQ_SNDHWM = 23, ZMQ_RCVHWM = 24, ZMQ_MAX_SOCKETS = 2 };
enum { DONTWAIT = 1, SNDMORE = 2 };

enum { STOP, READY, COMPLETED, ERRORS, PONGS, RENEWED, CONFIGS, CONFIGACKS, NEWEST, REACHED, REACHED_US, SAMPLES };
enum { SAMPLES_AT = 512, SAMPLES_MAX = 1 << 15, PAGE_BYTES = (SAMPLES_AT + 2 * SAMPLES_MAX) * 8 };
enum { CONFIG = 2, CONFIGACK = 3, READYOK = 5, PONG = 7, TASK = 8, TASKREPLY = 9, FORCENEGOTIATE = 13, ERROR = 17 };
enum { BUNDLE = 26, BUNDLE_HEAD = 9, BUNDLE_MESSAGES_MAX = 64, BUNDLED_BYTES_MAX = 2048, BUNDLE_BYTES_MAX = 16384 };
enum { R_TASK, R_CLIENT_CONNECT, R_CLIENT_PING, R_READY, R_READY_OTHER, R_WORKER_PING, R_WORKER_CONNECT };
/* Where the packed fields stand in a header frame; load.py checks them against the codec. */
enum { AT_ATTEMPT = 7, AT_ID_LENGTH = 10, AT_BEHIND = 18, AT_TASK_ID = 54, AT_REPLY_ID = 55 };
enum { AT_PING_TIME = 7, AT_OLDEST = 28, AT_PING_VERSION = 36 };
enum { RING = 1 << 16, AHEAD = 256, CLIENT = 0x7fffffff, BODY_MAX = 8192, VERSION_BYTES = 16 };
/* In a msgpack map: the key, and that 16 bytes follow. */
static const char VERSION_KEY[] = "config_version\xc4\x10";
static const char BUNDLES_TRUE[] = "\xa7" "bundles\xc3";

typedef struct { unsigned char *bytes; uint32_t length; } Record;
typedef struct {
    void *socket;
    int is_ready, is_connecting;
    uint64_t ping_at;
    unsigned char version[VERSION_BYTES];
} Worker;

static volatile uint64_t *page;
static Record *records;
static Worker *workers;
static void *client, *context;
static int epoll_fd, is_native, is_connected, has_started, takes_bundles;
static int worker_count, serving_count, in_flight, opened, outstanding;
static unsigned char answered[RING], newest[VERSION_BYTES];
static uint64_t sent_us[RING];
static uint64_t sequence = 1, oldest = 1, rate, started_us, ping_us;
/* Workers in the order in which their next PING is due: all have the same interval, so the first is always at the head. */
static int *ping_line;
static uint64_t ping_head, ping_tail;

static uint64_t now_us(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void put(unsigned char *at, uint64_t value, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, value >>= 8) at[i] = (unsigned char)value;
}

static uint64_t get(const unsigned char *at, int bytes) {
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) value = value << 8 | at[i];
    return value;
}

static void fail(const char *what) {
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void read_records(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    int count = R_WORKER_CONNECT + worker_count;
    records = calloc((size_t)count, sizeof *records);
    for (int i = 0; i < count; i++) {
        if (fread(&records[i].length, 4, 1, file) != 1) fail("too few records");
        records[i].bytes = malloc(records[i].length + 1);
        if (fread(records[i].bytes, 1, records[i].length, file) != records[i].length) fail("a short record");
    }
    fclose(file);
}

static void *open_socket(const char *endpoint, uint32_t index) {
    void *socket = zmq_socket(context, ZMQ_DEALER);
    if (!socket) fail("zmq_socket");
    int zero = 0, fd;
    size_t size = sizeof fd;
    zmq_setsockopt(socket, ZMQ_LINGER, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_SNDHWM, &zero, sizeof zero);
    zmq_setsockopt(socket, ZMQ_RCVHWM, &zero, sizeof zero);
    if (zmq_connect(socket, endpoint)) fail(endpoint);
    zmq_getsockopt(socket, ZMQ_FD, &fd, &size);
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = index};
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event)) fail("epoll_ctl");
    return socket;
}

/* What is to leave on one connection together. Whoever fills it empties it before another connection has its turn. */
static struct {
    int count;
    size_t length;
    uint32_t lengths[BUNDLE_MESSAGES_MAX];
    unsigned char bytes[BUNDLE_BYTES_MAX];
} outbox;

static int flush(void *socket) {
    static unsigned char frame[BUNDLE_BYTES_MAX];
    int count = outbox.count;
    size_t at = BUNDLE_HEAD;
    if (!count) return 0;
    memcpy(frame, outbox.bytes, 6);
    frame[6] = BUNDLE;
    put(frame + 7, (uint64_t)count, 2);
    for (int i = 0; i < count; i++, at += 4) put(frame + at, outbox.lengths[i], 4);
    memcpy(frame + at, outbox.bytes, outbox.length);
    if (count == 1) zmq_send(socket, outbox.bytes, outbox.length, DONTWAIT);
    else zmq_send(socket, frame, at + outbox.length, DONTWAIT);
    outbox.count = 0;
    outbox.length = 0;
    return 1;
}

static void send_soon(void *socket, const unsigned char *bytes, size_t length) {
    size_t size = BUNDLE_HEAD + 4 * ((size_t)outbox.count + 1) + outbox.length + length;
    if (!takes_bundles || length > BUNDLED_BYTES_MAX) {
        flush(socket);
        zmq_send(socket, bytes, length, DONTWAIT);
        return;
    }
    if (outbox.count == BUNDLE_MESSAGES_MAX || size > BUNDLE_BYTES_MAX) flush(socket);
    memcpy(outbox.bytes + outbox.length, bytes, length);
    outbox.lengths[outbox.count++] = (uint32_t)length;
    outbox.length += length;
}

typedef void (*Take)(int index, const unsigned char *message, size_t size);

/* Each message in a frame: one, or those of a bundle. */
static void take_each(int index, zmq_msg_t *frame, Take take) {
    const unsigned char *bytes = zmq_msg_data(frame);
    size_t size = zmq_msg_size(frame);
    if (!is_native || size < BUNDLE_HEAD || bytes[6] != BUNDLE) {
        take(index, bytes, size);
        return;
    }
    int count = (int)get(bytes + 7, 2);
    size_t at = BUNDLE_HEAD + 4 * (size_t)count;
    for (int i = 0; i < count; i++) {
        size_t length = (size_t)get(bytes + BUNDLE_HEAD + 4 * i, 4);
        if (at + length > size) exit(5);
        take(index, bytes + at, length);
        at += length;
    }
}

static void send_record(void *socket, int which) {
    zmq_send(socket, records[which].bytes, records[which].length, DONTWAIT);
}

static void send_ping(void *socket, int which, const unsigned char *version) {
    put(records[which].bytes + AT_PING_TIME, now_us(CLOCK_REALTIME), 8);
    memcpy(records[which].bytes + AT_PING_VERSION, version, VERSION_BYTES);
    send_record(socket, which);
}

static void send_connect(int index) {
    workers[index].is_connecting = 1;
    send_record(workers[index].socket, R_WORKER_CONNECT + index);
}

static void send_task(void) {
    Record *task = &records[R_TASK];
    put(task->bytes + AT_TASK_ID + task->bytes[AT_ID_LENGTH] - 8, sequence, 8);
    put(task->bytes + AT_BEHIND, sequence - oldest, 4);
    if (rate) sent_us[sequence % RING] = now_us(CLOCK_MONOTONIC);
    sequence++;
    send_soon(client, task->bytes, task->length);
}

static void send_due(void) {
    uint64_t due = rate ? (now_us(CLOCK_MONOTONIC) - started_us) * rate / 1000000 : UINT64_MAX;
    for (; outstanding < in_flight && sequence <= due; outstanding++) send_task();
}

static void settle(uint64_t settled) {
    if (settled < oldest) return;
    if (rate) {
        volatile uint64_t *sample = page + SAMPLES_AT + 2 * (page[SAMPLES] % SAMPLES_MAX);
        sample[0] = now_us(CLOCK_MONOTONIC);
        sample[1] = sample[0] - sent_us[settled % RING];
        page[SAMPLES]++;
    }
    answered[settled % RING] = 1;
    while (oldest < sequence && answered[oldest % RING]) answered[oldest++ % RING] = 0;
}

/* Reads the rest of a message whose last frame is in `frame`; with `to`, sends it on. */
static void pass_rest(void *from, void *to, zmq_msg_t *frame) {
    int more = zmq_msg_more(frame);
    while (more) {
        zmq_msg_recv(frame, from, 0);
        more = zmq_msg_more(frame);
        if (to) zmq_msg_send(frame, to, (more ? SNDMORE : 0) | DONTWAIT);
    }
}

static void client_take(int index, const unsigned char *header, size_t size) {
    (void)index;
    int command = is_native ? (size > 6 ? header[6] : 0) : TASKREPLY;
    if (command == TASKREPLY || command == ERROR) {
        page[command == ERROR ? ERRORS : COMPLETED]++;
        int is_reply = is_native && command == TASKREPLY && size > AT_REPLY_ID;
        if (command == TASKREPLY) settle(is_reply ? get(header + AT_REPLY_ID + header[AT_ID_LENGTH] - 8, 8) : oldest);
        outstanding--;
        if (!rate) send_due();
    } else if (command == CONFIG || command == CONFIGACK) {
        is_connected = 1;
        takes_bundles = memmem(header, size, BUNDLES_TRUE, sizeof BUNDLES_TRUE - 1) != NULL;
    } else if (command == FORCENEGOTIATE) {
        page[RENEWED]++;
        send_record(client, R_CLIENT_CONNECT);
    }
}

static void client_read(void) {
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    do {
        while (zmq_msg_recv(&frame, client, DONTWAIT) >= 0) {
            take_each(CLIENT, &frame, client_take);
            pass_rest(client, NULL, &frame);
        }
    } while (flush(client));
    zmq_msg_close(&frame);
}

static void reply(Worker *worker, const unsigned char *task, size_t size) {
    unsigned char header[AT_REPLY_ID + 256 + BODY_MAX] = {0};
    unsigned id_length = task[AT_ID_LENGTH];
    /* The body stands in the header frame, after id, service and options. */
    size_t at = AT_TASK_ID + id_length + task[AT_ID_LENGTH + 1] + (size_t)get(task + AT_ID_LENGTH + 2, 2);
    size_t length = size - at;
    if (length > BODY_MAX) exit(3);
    memcpy(header, task, 6);
    header[6] = TASKREPLY;
    header[AT_ATTEMPT] = task[AT_ATTEMPT];
    header[9] = 0x81; /* final, with the body inside */
    header[AT_ID_LENGTH] = (unsigned char)id_length;
    memcpy(header + AT_REPLY_ID, task + AT_TASK_ID, id_length);
    memcpy(header + AT_REPLY_ID + id_length, task + at, length);
    send_soon(worker->socket, header, AT_REPLY_ID + id_length + length);
}

/* CONFIG or CONFIGACK: the answer to CONNECT, after which READY is said, or a push, which is counted. */
static void take_config(int index, int command, const unsigned char *start, size_t size) {
    Worker *worker = &workers[index];
    const unsigned char *end = start + size;
    const unsigned char *version = memmem(start, size, VERSION_KEY, sizeof VERSION_KEY - 1);
    if (!version || end - version < (long)sizeof VERSION_KEY - 1 + VERSION_BYTES) exit(4);
    version += sizeof VERSION_KEY - 1;
    takes_bundles = memmem(start, size, BUNDLES_TRUE, sizeof BUNDLES_TRUE - 1) != NULL;
    if (worker->is_connecting) {
        worker->is_connecting = 0;
        send_record(worker->socket, index < serving_count ? R_READY : R_READY_OTHER);
    } else {
        page[command == CONFIG ? CONFIGS : CONFIGACKS]++;
    }
    if (memcmp(version, newest, VERSION_BYTES) > 0) {
        memcpy(newest, version, VERSION_BYTES);
        page[REACHED] = 0;
        page[NEWEST] = get(newest, 8);
    }
    int is_other = memcmp(version, worker->version, VERSION_BYTES);
    memcpy(worker->version, version, VERSION_BYTES);
    if (is_other && !memcmp(version, newest, VERSION_BYTES)) {
        page[REACHED_US] = now_us(CLOCK_MONOTONIC);
        page[REACHED]++;
    }
}

static void worker_take(int index, const unsigned char *message, size_t size) {
    Worker *worker = &workers[index];
    int command = size > 6 ? message[6] : 0;
    if (command == TASK) {
        reply(worker, message, size);
    } else if (command == CONFIG || command == CONFIGACK) {
        take_config(index, command, message, size);
    } else if (command == READYOK && !worker->is_ready) {
        worker->is_ready = 1;
        worker->ping_at = now_us(CLOCK_MONOTONIC) + ping_us;
        ping_line[ping_tail++ % (uint64_t)worker_count] = index;
        page[READY]++;
    } else if (command == PONG) {
        page[PONGS]++;
    } else if (command == FORCENEGOTIATE) {
        page[RENEWED]++;
        send_connect(index);
    } else if (command == ERROR) {
        page[ERRORS]++;
    }
}

static void worker_read(int index) {
    void *socket = workers[index].socket;
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    do {
        while (zmq_msg_recv(&frame, socket, DONTWAIT) >= 0) {
            if (is_native) {
                take_each(index, &frame, worker_take);
                pass_rest(socket, NULL, &frame);
                continue;
            }
            int more = zmq_msg_more(&frame);
            zmq_msg_send(&frame, socket, (more ? SNDMORE : 0) | DONTWAIT);
            while (more) {
                zmq_msg_recv(&frame, socket, 0);
                more = zmq_msg_more(&frame);
                zmq_msg_send(&frame, socket, (more ? SNDMORE : 0) | DONTWAIT);
            }
        }
    } while (flush(socket));
    zmq_msg_close(&frame);
}

/* Opens the next workers; never more than AHEAD that are still without their session. */
static void open_workers(const char *backend) {
    for (int burst = 0; opened < worker_count && burst < 50; burst++) {
        if (is_native && opened - (int)page[READY] >= AHEAD) return;
        workers[opened].socket = open_socket(backend, (uint32_t)opened);
        if (is_native) send_connect(opened);
        else page[READY]++;
        worker_read(opened++); /* libzmq signals only those who have found nothing once */
    }
}

/* A worker pings from the moment that it is ready, also while others still connect: else it would be given up as silent. */
static void ping_due(void) {
    uint64_t now = now_us(CLOCK_MONOTONIC);
    while (ping_head < ping_tail) {
        int index = ping_line[ping_head % (uint64_t)worker_count];
        if (workers[index].ping_at > now) return;
        ping_head++;
        workers[index].ping_at = now + ping_us;
        ping_line[ping_tail++ % (uint64_t)worker_count] = index;
        send_ping(workers[index].socket, R_WORKER_PING, workers[index].version);
        worker_read(index);
    }
}

/* The same, but round in the order of workers and evenly over the interval, as jitter spreads PINGs of real ones. */
static void ping_evenly(void) {
    static uint64_t begun_us, passed;
    if (!begun_us) begun_us = now_us(CLOCK_MONOTONIC);
    uint64_t due = (now_us(CLOCK_MONOTONIC) - begun_us) * (uint64_t)worker_count / ping_us;
    for (; passed < due; passed++) {
        int index = (int)(passed % (uint64_t)worker_count);
        if (!workers[index].is_ready) continue;
        send_ping(workers[index].socket, R_WORKER_PING, workers[index].version);
        worker_read(index);
    }
}

/* Like the library, say CONNECT again after a while: the first may have left on a connection that broke. */
static void connect_again(void) {
    static uint64_t next_us;
    uint64_t now = now_us(CLOCK_MONOTONIC);
    if (now < next_us || (int)page[READY] == worker_count) return;
    for (int i = 0; next_us && i < opened; i++) {
        if (workers[i].is_ready) continue;
        page[RENEWED]++;
        send_connect(i);
        worker_read(i);
    }
    next_us = now + 2000000;
}

int main(int count, char **arguments) {
    if (count != 13) return fprintf(stderr, "load: twelve arguments are expected\n"), 2;
    int file = open(arguments[1], O_RDWR);
    page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) fail(arguments[1]);
    is_native = !strcmp(arguments[5], "native");
    worker_count = atoi(arguments[6]);
    serving_count = atoi(arguments[7]);
    in_flight = atoi(arguments[8]);
    int is_even = atoi(arguments[12]);
    uint64_t client_ping = 0;
    static const unsigned char client_version[VERSION_BYTES]; /* it names none */
    ping_us = (uint64_t)atoi(arguments[10]) * 1000;
    rate = (uint64_t)atoll(arguments[11]);
    if (in_flight > RING / 2) return fprintf(stderr, "load: too large\n"), 2;
    read_records(arguments[2]);
    workers = calloc((size_t)worker_count + 1, sizeof *workers);
    ping_line = calloc((size_t)worker_count + 1, sizeof *ping_line);
    epoll_fd = epoll_create1(0);
    context = zmq_ctx_new();
    zmq_ctx_set(context, ZMQ_MAX_SOCKETS, worker_count + 64);
    struct epoll_event events[256];
    while (!page[STOP]) {
        open_workers(arguments[4]);
        if (in_flight && !client && (int)page[READY] == worker_count) {
            client = open_socket(arguments[3], CLIENT);
            if (is_native) send_record(client, R_CLIENT_CONNECT);
            else is_connected = 1;
            client_read();
        }
        if (client && is_connected && !has_started) {
            has_started = 1;
            started_us = now_us(CLOCK_MONOTONIC);
        }
        if (has_started) {
            send_due();
            client_read();
        }
        int pause_ms = opened < worker_count || rate ? 1 : ping_us ? 5 : 50;
        int ready = epoll_wait(epoll_fd, events, 256, pause_ms);
        for (int i = 0; i < ready; i++) {
            if (events[i].data.u32 == CLIENT) client_read();
            else worker_read((int)events[i].data.u32);
        }
        if (!is_native || !ping_us) continue;
        if (is_even) ping_evenly();
        else ping_due();
        connect_again();
        uint64_t now = now_us(CLOCK_MONOTONIC);
        if (client && has_started && now - client_ping > ping_us) {
            client_ping = now;
            put(records[R_CLIENT_PING].bytes + AT_OLDEST, oldest, 8);
            send_ping(client, R_CLIENT_PING, client_version);
            client_read();
        }
    }
    _exit(0);
}
