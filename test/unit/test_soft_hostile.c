/*
 * test_soft_hostile.c - a peer on the same host that does not keep to the software provider's
 * rules.
 *
 * The test itself plays the peer: it speaks the notes of soft.h by hand and passes descriptors that
 * must be refused. After each attempt the queue pair must have failed once, and no descriptor or
 * mapping may be left.
 */
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "pair.h"
#include "../../src/provider/soft.h"

static void
send_note(int sock, const RfSoftNote *note, const int *fds, int count)
{
	union
	{
		char		bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	}			control;
	struct iovec iov = {(void *) note, sizeof(*note)};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};

	if (count > 0)
	{
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(count * sizeof(int));
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(count * sizeof(int));
		memcpy(CMSG_DATA(header), fds, count * sizeof(int));
	}
	if (sendmsg(sock, &message, MSG_NOSIGNAL) != sizeof(*note))
		die("sendmsg", strerror(errno));
}

typedef struct Peer
{
	End			end;
	int			sock;			/* the hostile side */
	int			inbox_fd;
	RfSoftInbox *inbox;			/* the end that we pass */
} Peer;

#define RING 64

static void
peer_open(Peer *peer)
{
	RfQpConfig	config = {.max_wr = 16, .max_recv = 16, .context = &peer->end};
	int			socks[2];

	end_open(&peer->end, PAIR_SHM, NULL, 1 << 20, &config);
	pair_sockets(PAIR_SHM, socks);
	/* its own blob serves as ours: only the domain's number is read of it */
	end_connect(&peer->end, peer->end.qp, socks[0], NULL);
	peer->sock = socks[1];
	peer->inbox_fd = memfd(sizeof(RfSoftInbox) + RING * sizeof(RfSoftSlot), F_SEAL_SHRINK);
	peer->inbox = mmap(NULL, sizeof(RfSoftInbox) + RING * sizeof(RfSoftSlot),
					   PROT_READ | PROT_WRITE, MAP_SHARED, peer->inbox_fd, 0);
}

static void
hello(Peer *peer)
{
	RfSoftNote	note = {.magic = RF_SOFT_MAGIC, .type = RF_SOFT_NOTE_HELLO, .ring_size = RING};

	send_note(peer->sock, &note, &peer->inbox_fd, 1);
}

static void
region(Peer *peer, uint32_t rkey, uint64_t addr, uint64_t length, int fd)
{
	RfSoftNote	note = {.magic = RF_SOFT_MAGIC,
		.type = RF_SOFT_NOTE_REGION,
		.rkey = rkey,
		.addr = addr,
	.length = length};

	send_note(peer->sock, &note, &fd, 1);
	atomic_fetch_add(&peer->inbox->announced, 1);
}

static void
post(Peer *peer, uint64_t addr, uint32_t rkey, uint32_t length, bool imm)
{
	RfSge		sge = {peer->end.memory, length, peer->end.region->lkey};
	RfWr		wr = {.opcode = imm ? RF_WR_WRITE_IMM : RF_WR_WRITE,
		.num_sge = 1,
		.sge = &sge,
		.remote_addr = addr,
		.rkey = rkey,
	.signaled = true};

	peer->end.provider->qp_post(peer->end.qp, &wr);
}

static int
polled(Peer *peer, RfWcOpcode opcode, RfWcStatus status)
{
	RfWc		wc[64];
	int			found = 0;
	int			count;

	peer->end.provider->cq_arm(peer->end.cq);
	while ((count = peer->end.provider->cq_poll(peer->end.cq, wc, 64)) > 0)
	{
		for (int i = 0; i < count; i++)
			found += wc[i].opcode == opcode && wc[i].status == status;
	}
	return found;
}

/* Close both sides; the rest of the checks of one case. */
static void
expect_failed(Peer *peer, int fds, const char *name)
{
	bool		once = polled(peer, RF_WC_DISCONNECTED, RF_WC_TRANSPORT) == 1;

	once &= polled(peer, RF_WC_DISCONNECTED, RF_WC_TRANSPORT) == 0;
	end_close(&peer->end);
	munmap(peer->inbox, sizeof(RfSoftInbox) + RING * sizeof(RfSoftSlot));
	close(peer->inbox_fd);
	close(peer->sock);
	check(once && open_fds() == fds, name);
}

static void
test_hello(void)
{
	Peer		peer;
	RfSoftNote	note = {.magic = RF_SOFT_MAGIC, .type = RF_SOFT_NOTE_HELLO, .ring_size = RING};
	int			fds = open_fds();
	int			fd;

	peer_open(&peer);
	note.magic = 1;
	send_note(peer.sock, &note, &peer.inbox_fd, 1);
	expect_failed(&peer, fds, "hello with a wrong magic number");
	note.magic = RF_SOFT_MAGIC;

	peer_open(&peer);
	send_note(peer.sock, &note, NULL, 0);
	expect_failed(&peer, fds, "hello without a descriptor");

	peer_open(&peer);
	send_note(peer.sock, &note, (int[]) {peer.inbox_fd, peer.inbox_fd}, 2);
	expect_failed(&peer, fds, "hello with two descriptors");

	peer_open(&peer);
	send_note(peer.sock, &note, (int[]) {peer.inbox_fd, 0, 0, 0, 0, 0, 0, 0}, 8);
	expect_failed(&peer, fds, "hello with eight descriptors");

	peer_open(&peer);
	note.ring_size = RING * 2;
	send_note(peer.sock, &note, &peer.inbox_fd, 1);
	expect_failed(&peer, fds, "hello with a ring longer than its memory");

	peer_open(&peer);
	note.ring_size = 63;
	send_note(peer.sock, &note, &peer.inbox_fd, 1);
	expect_failed(&peer, fds, "hello with a ring that is no power of two");
	note.ring_size = RING;

	peer_open(&peer);
	fd = memfd(1 << 20, 0);
	send_note(peer.sock, &note, &fd, 1);
	close(fd);
	expect_failed(&peer, fds, "hello with memory that could shrink");

	peer_open(&peer);
	hello(&peer);
	hello(&peer);
	expect_failed(&peer, fds, "hello twice");

	peer_open(&peer);
	if (send(peer.sock, &note, 10, 0) != 10)
		die("send", strerror(errno));
	polled(&peer, RF_WC_WRITE, RF_WC_SUCCESS);
	shutdown(peer.sock, SHUT_WR);
	expect_failed(&peer, fds, "half a hello");
}

static void
test_region(void)
{
	Peer		peer;
	int			fds = open_fds();
	int			fd;
	char	   *memory;
	int			file;

	peer_open(&peer);
	hello(&peer);
	fd = memfd(8192, F_SEAL_SHRINK);
	region(&peer, 5, 0x10000, 8192, fd);
	post(&peer, 0x10000 + 4096, 5, 4096, true);
	memory = mmap(NULL, 8192, PROT_READ, MAP_SHARED, fd, 0);
	check(polled(&peer, RF_WC_WRITE, RF_WC_SUCCESS) == 1 && atomic_load(&peer.inbox->head) == 1,
		  "a peer that keeps the rules is served");
	munmap(memory, 8192);
	region(&peer, 5, 0x20000, 8192, fd);
	close(fd);
	expect_failed(&peer, fds, "the same key for another region");

	peer_open(&peer);
	hello(&peer);
	fd = memfd(8192, F_SEAL_SHRINK);
	region(&peer, 5, 0x10000, 8193, fd);
	close(fd);
	expect_failed(&peer, fds, "a region longer than its memory");

	peer_open(&peer);
	hello(&peer);
	fd = memfd(8192, 0);
	region(&peer, 5, 0x10000, 8192, fd);
	close(fd);
	expect_failed(&peer, fds, "a region whose memory could shrink");

	peer_open(&peer);
	hello(&peer);
	fd = memfd(8192, F_SEAL_SHRINK);
	region(&peer, 5, UINT64_MAX - 100, 8192, fd);
	close(fd);
	expect_failed(&peer, fds, "a region that wraps around");

	peer_open(&peer);
	hello(&peer);
	file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	region(&peer, 5, 0x10000, 4096, file);
	close(file);
	expect_failed(&peer, fds, "a region in a file");

	peer_open(&peer);
	hello(&peer);
	fd = memfd(8192, F_SEAL_SHRINK | F_SEAL_WRITE);
	region(&peer, 5, 0x10000, 4096, fd);
	close(fd);
	expect_failed(&peer, fds, "a region that cannot be written");

	peer_open(&peer);
	fd = memfd(8192, F_SEAL_SHRINK);
	region(&peer, 5, 0x10000, 4096, fd);
	close(fd);
	expect_failed(&peer, fds, "a region before the hello");
}

static void
test_ring(void)
{
	Peer		peer;
	int			fds = open_fds();
	RfSoftInbox *theirs;
	RfSoftNote	note;
	char		control[CMSG_SPACE(sizeof(int))];
	struct iovec iov = {&note, sizeof(note)};
	struct msghdr message = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
	.msg_controllen = sizeof(control)};
	int			passed;
	int			done = 0;

	/* the inbox that the provider passed to us */
	peer_open(&peer);
	hello(&peer);
	if (recvmsg(peer.sock, &message, MSG_CMSG_CLOEXEC) != sizeof(note))
		die("recvmsg", strerror(errno));
	memcpy(&passed, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(passed));
	check(ftruncate(passed, 0) != 0, "memory that the provider passes cannot shrink");
	theirs = mmap(NULL, sizeof(RfSoftInbox), PROT_READ | PROT_WRITE, MAP_SHARED, passed, 0);
	atomic_store(&theirs->head, 1000000);
	munmap(theirs, sizeof(RfSoftInbox));
	close(passed);
	expect_failed(&peer, fds, "a ring position that cannot be");

	peer_open(&peer);
	hello(&peer);
	atomic_store(&peer.inbox->tail, 500);
	post(&peer, 0, 0, 0, true);
	expect_failed(&peer, fds, "a read position that cannot be");

	/* a counter of notes that never come: the request fails or waits, the caller never hangs */
	peer_open(&peer);
	hello(&peer);
	atomic_store(&peer.inbox->announced, 77);
	post(&peer, 0x10000, 5, 100, true);
	for (int i = 0; i < 1000; i++)
		polled(&peer, RF_WC_WRITE, RF_WC_SUCCESS);
	shutdown(peer.sock, SHUT_WR);
	expect_failed(&peer, fds, "notes announced that never come");

	/*
	 * it arms itself for ever, never reads the byte that wakes it, and makes its socket a blocking
	 * one
	 */
	peer_open(&peer);
	hello(&peer);
	fcntl(peer.sock, F_SETFL, fcntl(peer.sock, F_GETFL) & ~O_NONBLOCK);
	for (int i = 0; i < 5000; i++)
	{
		atomic_store(&peer.inbox->armed, 1);
		atomic_store(&peer.inbox->tail, i);
		post(&peer, 0, 0, 0, true);
		done += polled(&peer, RF_WC_WRITE, RF_WC_SUCCESS);
	}
	check(done == 5000, "a wake-up never blocks");
	shutdown(peer.sock, SHUT_WR);
	expect_failed(&peer, fds, "and the peer may leave");
}

/* A peer that dies anywhere in the middle leaves nothing hanging. */
static void
test_killed(void)
{
	int			bad = 0;

	for (int round = 0; round < 60; round++)
	{
		Peer		peer;
		pid_t		child;
		double		deadline;
		bool		gone = false;
		int			waiting = 0;

		peer_open(&peer);

		/*
		 * before the key is used, however late the note comes: requests for a key that nobody
		 * announced are refused
		 */
		atomic_store(&peer.inbox->announced, 1);
		child = fork();
		if (child == 0)
		{
			RfSoftNote	note = {.magic = RF_SOFT_MAGIC,
				.type = RF_SOFT_NOTE_REGION,
				.rkey = 1,
				.addr = 0x10000,
			.length = 1 << 20};
			int			fd = memfd(1 << 20, F_SEAL_SHRINK);

			hello(&peer);
			if (round % 4 == 3)
				usleep(1000);	/* the other side meets the gap between the two notes */
			send_note(peer.sock, &note, &fd, 1);
			usleep(round * 50);
			_exit(0);
		}
		close(peer.sock);
		deadline = now_seconds() + PATIENCE;
		while (!gone && now_seconds() < deadline)
		{
			RfWc		wc[16];
			int			count;

			/* until the hello is there they wait */
			for (; waiting < 8; waiting++)
				post(&peer, 0x10000, 1, 1 << 20, false);
			count = peer.end.provider->cq_poll(peer.end.cq, wc, 16);
			for (int i = 0; i < count; i++)
			{
				waiting -= wc[i].opcode == RF_WC_WRITE;
				gone |= wc[i].opcode == RF_WC_DISCONNECTED;
			}
		}
		bad += !gone;
		waitpid(child, NULL, 0);
		end_close(&peer.end);
		munmap(peer.inbox, sizeof(RfSoftInbox) + RING * sizeof(RfSoftSlot));
		close(peer.inbox_fd);
	}
	check(bad == 0, "a peer that dies while we write into its memory");
}

/*
 * A caller whose polls are full of its own completions hears of the end all the same, and before it
 * has copied for long.
 */
static void
test_busy_caller(void)
{
	Peer		peer;
	int			fds = open_fds();
	int			fd = memfd(1 << 20, F_SEAL_SHRINK);
	RfWc		wc[8];
	int			polls = 0;
	int			end = 0;

	peer_open(&peer);
	hello(&peer);
	region(&peer, 1, 0x10000, 1 << 20, fd);
	close(fd);
	post(&peer, 0x10000, 1, 1, false);
	while (peer.end.provider->cq_poll(peer.end.cq, wc, 8) == 0)
		;
	shutdown(peer.sock, SHUT_WR);
	for (; end == 0 && polls < 64; polls++)
	{
		int			count;

		for (int i = 0; i < 8; i++)
			post(&peer, 0x10000, 1, 1 << 20, false);
		count = peer.end.provider->cq_poll(peer.end.cq, wc, 8);
		for (int i = 0; i < count; i++)
			end += wc[i].opcode == RF_WC_DISCONNECTED;
	}
	check(end == 1, "the end is seen between full polls");
	end_close(&peer.end);
	munmap(peer.inbox, sizeof(RfSoftInbox) + RING * sizeof(RfSoftSlot));
	close(peer.inbox_fd);
	close(peer.sock);
	check(open_fds() == fds, "and nothing is left of it");
}

/* Descriptors that region_register must refuse. */
static void
test_register(void)
{
	End			end;
	RfQpConfig	config = {.max_wr = 16, .max_recv = 16};
	RfError		error = {0};
	int			fd;

	end_open(&end, PAIR_SHM, NULL, 1 << 20, &config);
	fd = memfd(4096, F_SEAL_SHRINK);
	check(end.provider->region_register(end.domain, end.memory, 8192, fd, &error) == NULL &&
		  error.kind == RF_ERROR_CONFIGURATION && error.message[0],
		  "a descriptor shorter than the region");
	close(fd);
	fd = memfd(8192, F_SEAL_SEAL);
	memset(&error, 0, sizeof(error));
	check(end.provider->region_register(end.domain, end.memory, 8192, fd, &error) == NULL &&
		  error.kind == RF_ERROR_CONFIGURATION, "a memfd that cannot be sealed");
	close(fd);
	end_close(&end);
}

int
main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_hello();
	test_region();
	test_ring();
	test_killed();
	test_busy_caller();
	test_register();
	printf("1..%d\n", test_number);
	return failures > 0;
}
