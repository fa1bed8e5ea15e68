/*
 * test_tls.c - TLS between two ends with a secret in common (src/base/tls.c), with somebody between
 * them that reads, holds back, drops, repeats, exchanges and changes the traffic. The receiver gets
 * the bytes that were sent, or nothing; never anything else.
 *
 * One thread drives both ends and the one between them.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/tls.h"

#define MOST	(8 << 20)
#define ROUNDS	20000			/* of an end that gets nothing more; only a failure reaches it */

static int	failures;

static void
check(bool good, const char *what)
{
	printf("%sok - %s\n", good ? "" : "not ", what);
	fflush(stdout);
	failures += !good;
}

/* Bytes on their way in one direction. */
typedef struct Way
{
	int			from;
	int			to;
	unsigned char *bytes;		/* read and not passed on */
	size_t		used;
	unsigned char *seen;		/* all that ever came */
	size_t		seen_used;
	int			records;		/* of the connection's data that were passed on */
} Way;

/* One end and the one between. */
typedef struct Line
{
	RfTls	   *ends[2];		/* 0: client */
	int			socks[2];
	Way			ways[2];		/* 0: from the client */
} Line;

static void
open_line(Line *line, const char *secret, const char *other_secret, uint64_t rekey_after,
		  int records)
{
	RfError		error = {0};

	memset(line, 0, sizeof(*line));
	for (int i = 0; i < 2; i++)
	{
		int			pair[2];
		RfTlsKey	key = {.client = i == 0, .rekey_after = rekey_after};

		if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) != 0)
			exit(2);
		line->socks[i] = pair[0];
		line->ways[i].from = pair[1];
		line->ways[1 - i].to = pair[1];
		line->ways[i].bytes = malloc(4 * MOST);
		line->ways[i].seen = malloc(4 * MOST);
		strncpy((char *) key.secret, i == 0 ? secret : other_secret, sizeof(key.secret));
		line->ends[i] = rf_tls_new(pair[0], &key, records, &error);
		if (line->ends[i] == NULL)
		{
			printf("# %s: %s\n", error.message, error.detail);
			exit(2);
		}
	}
}

static void
close_line(Line *line)
{
	for (int i = 0; i < 2; i++)
	{
		rf_tls_free(line->ends[i]);
		close(line->socks[i]);
		close(line->ways[i].from);
		free(line->ways[i].bytes);
		free(line->ways[i].seen);
	}
}

static void
read_way(Way *way)
{
	ssize_t		got = recv(way->from, way->bytes + way->used, 65536, MSG_DONTWAIT);

	if (got > 0)
	{
		memcpy(way->seen + way->seen_used, way->bytes + way->used, got);
		way->seen_used += got;
		way->used += got;
	}
}

static void
pass(Way *way, size_t length)
{
	ssize_t		sent = send(way->to, way->bytes, length < way->used ? length : way->used,
							MSG_DONTWAIT | MSG_NOSIGNAL);

	if (sent > 0)
	{
		memmove(way->bytes, way->bytes + sent, way->used - sent);
		way->used -= sent;
	}
}

/* Pass on the incoming bytes, `piece` bytes at a time. */
static void
carry(Line *line, size_t piece)
{
	for (int i = 0; i < 2; i++)
	{
		read_way(&line->ways[i]);
		pass(&line->ways[i], piece);
	}
}

/* One step of an end without data: parts of the handshake. */
static ssize_t
nudge(RfTls *tls)
{
	char		none[1];

	(void) rf_tls_send(tls, NULL, 0);
	return rf_tls_receive(tls, none, sizeof(none));
}

static bool
shake_hands(Line *line, size_t piece)
{
	for (int round = 0;
		 round < ROUNDS && !(rf_tls_ready(line->ends[0]) && rf_tls_ready(line->ends[1])); round++)
	{
		carry(line, piece);
		for (int i = 0; i < 2; i++)
			if (nudge(line->ends[i]) >= 0 || errno != EAGAIN)
				return false;
	}
	/* The last of it is on its way to the server, which is ready, or it is the server's. */
	return rf_tls_ready(line->ends[0]) && rf_tls_ready(line->ends[1]);
}

static unsigned char
byte_at(uint64_t position)
{
	return (unsigned char) (position * 2654435761u >> 13);
}

/* Send so many bytes in pieces of all sizes, receive them, compare. */
static bool
transfer(Line *line, int from, size_t total, size_t piece, bool *in_turns)
{
	RfTls	   *sender = line->ends[from];
	RfTls	   *receiver = line->ends[1 - from];
	unsigned char *source = malloc(total);
	unsigned char *target = malloc(total);
	size_t		sent = 0;
	size_t		got = 0;
	int			idle = 0;
	bool		good;

	for (size_t i = 0; i < total; i++)
		source[i] = byte_at(i + total);
	while (got < total && idle < ROUNDS)
	{
		struct iovec iov[8];
		int			count = 0;
		size_t		offset = sent;
		ssize_t		part;

		static const size_t sizes[] = {24, 16384, 1, 70000, 24, 40000, 300, 16360};

		while (count < 8 && offset < total)
		{
			size_t		length = sizes[count] < total - offset ? sizes[count] : total - offset;

			iov[count++] = (struct iovec) {source + offset, length};
			offset += length;
		}
		part = rf_tls_send(sender, iov, count);
		if (part > 0)
			sent += part;
		else if (part < 0 && errno != EAGAIN)
			break;
		carry(line, piece);
		part = rf_tls_receive(receiver, target + got, total - got < 50000 ? total - got : 50000);
		if (part > 0)
			got += part;
		else if (part == 0 || errno != EAGAIN)
			break;
		idle = part > 0 ? 0 : idle + 1;
		*in_turns |= rf_tls_unread(receiver);
	}
	good = got == total && memcmp(source, target, total) == 0;
	free(source);
	free(target);
	return good;
}

static bool
contains(const Way *way, const char *text)
{
	return memmem(way->seen, way->seen_used, text, strlen(text)) != NULL;
}

/*
 * How often keys were made anew: the announcement is the only record of 5 bytes, and 17 that each
 * has.
 */
static int
rekeyed(const Way *way)
{
	int			count = 0;

	for (size_t at = 0; at + 5 <= way->seen_used;
		 at += 5 + ((size_t) way->seen[at + 3] << 8 | way->seen[at + 4]))
		count += way->seen[at] == 23 && way->seen[at + 3] == 0 && way->seen[at + 4] == 22;
	return count;
}

static void
good_days(size_t piece, int records)
{
	static const char text[] = "what nobody but the two may read";
	Line		line;
	char		buffer[sizeof(text)];
	struct iovec iov = {(void *) text, sizeof(text)};
	bool		good;
	bool		in_turns = false;
	char		what[200];

	open_line(&line, "alike", "alike", 1 << 30, records);
	carry(&line, piece);
	good = rf_tls_send(line.ends[1], &iov, 1) < 0 && errno == EAGAIN &&
		recv(line.socks[1], buffer, 1, MSG_PEEK | MSG_DONTWAIT) == 1;
	check(good, "who sends too early has to wait, and reads nothing meanwhile");
	good = !rf_tls_ready(line.ends[0]) && shake_hands(&line, piece);
	snprintf(what, sizeof(what), "in pieces of %zu, %d records at a time: they agree", piece,
			 records);
	check(good, what);
	good = rf_tls_send(line.ends[0], &iov, 1) == sizeof(text);
	for (int round = 0; round < ROUNDS; round++)
	{
		ssize_t		got;

		carry(&line, piece);
		got = rf_tls_receive(line.ends[1], buffer, sizeof(buffer));
		if (got >= 0 || errno != EAGAIN)
		{
			good &= got == sizeof(text) && memcmp(buffer, text, sizeof(text)) == 0;
			break;
		}
	}
	check(good && !contains(&line.ways[0], "nobody but") && !contains(&line.ways[0], "alike") &&
		  !contains(&line.ways[1], "alike"),
		  "text arrives, and neither it nor the secret is seen on the way");
	check(transfer(&line, 0, piece < 1000 ? 100000 : MOST, piece, &in_turns) &&
		  transfer(&line, 1, piece < 1000 ? 100000 : MOST / 2, piece, &in_turns),
		  "much arrives, both ways");
	check(rekeyed(&line.ways[0]) == 0, "with the same keys");
	if (records > 1 && piece > 100000)
		check(in_turns, "and what was read ahead is told");
	shutdown(line.ways[0].to, SHUT_WR);
	errno = 0;
	check(rf_tls_receive(line.ends[1], buffer, sizeof(buffer)) == 0,
		  "the end of the socket is the end");
	check(rf_tls_receive(line.ends[1], buffer, sizeof(buffer)) < 0 &&
		  rf_tls_send(line.ends[1], &iov, 1) < 0,
		  "for good");
	close_line(&line);
}

static void
rekeying(void)
{
	Line		line;
	bool		ignored = false;

	open_line(&line, "alike", "alike", 1, 4);
	check(shake_hands(&line, 65536) && transfer(&line, 0, 1 << 20, 65536, &ignored) &&
		  transfer(&line, 1, 1 << 20, 7777, &ignored),
		  "keys that are made anew for each record");
	check(rekeyed(&line.ways[0]) >= 60 && rekeyed(&line.ways[1]) >= 60, "of either direction");
	close_line(&line);
	open_line(&line, "alike", "alike", 10 * RF_TLS_RECORD, 4);
	check(shake_hands(&line, 65536) && transfer(&line, 0, 1 << 20, 65536, &ignored) &&
		  rekeyed(&line.ways[0]) >= 6 && rekeyed(&line.ways[0]) < 60 &&
		  rekeyed(&line.ways[1]) == 0,
		  "or for every ten");
	close_line(&line);
}

static void
strangers(void)
{
	Line		line;
	uint8_t		one[RF_TLS_KEY_SIZE];
	uint8_t		two[RF_TLS_KEY_SIZE];
	uint8_t		three[RF_TLS_KEY_SIZE];

	open_line(&line, "alike", "another", 1 << 30, 1);
	check(!shake_hands(&line, 65536) && !rf_tls_ready(line.ends[0]) && !rf_tls_ready(line.ends[1]),
		  "ends with two secrets do not agree");
	check(!rf_tls_export(line.ends[0], "x", 1, one), "and have nothing in common");
	close_line(&line);

	/* Both ends of the recorded line get it once more. */
	open_line(&line, "alike", "alike", 1 << 30, 1);
	check(shake_hands(&line, 65536), "they agree");
	check(rf_tls_export(line.ends[0], "lane 0", 6, one) &&
		  rf_tls_export(line.ends[1], "lane 0", 6, two) && memcmp(one, two, sizeof(one)) == 0,
		  "what they export is the same at both ends");
	check(rf_tls_export(line.ends[1], "lane 1", 6, three) && memcmp(one, three, sizeof(one)) != 0,
		  "and another for each context");
	{
		Line		again;

		open_line(&again, "alike", "alike", 1 << 30, 1);
		memcpy(again.ways[0].bytes, line.ways[0].seen, line.ways[0].seen_used);
		again.ways[0].used = line.ways[0].seen_used;
		pass(&again.ways[0], line.ways[0].seen_used);
		for (int i = 0; i < 100; i++)
			(void) nudge(again.ends[1]);
		check(!rf_tls_ready(again.ends[1]) && nudge(again.ends[1]) < 0 && errno == EPROTO,
			  "a handshake that is sent once more is none");
		close_line(&again);
	}
	{
		Line		other;
		uint8_t		four[RF_TLS_KEY_SIZE];

		open_line(&other, "alike", "alike", 1 << 30, 1);
		check(shake_hands(&other, 65536) && rf_tls_export(other.ends[0], "lane 0", 6, four) &&
			  memcmp(one, four, sizeof(one)) != 0,
			  "another connection exports something else");
		close_line(&other);
	}
	close_line(&line);
}

typedef enum Mischief
{
	NONE, FLIP, DROP, REPEAT, EXCHANGE, CUT, INSERT, OLD_TEXT, MISCHIEFS
} Mischief;

/* Length of the record that begins there, if it is there whole. */
static size_t
record_length(const unsigned char *bytes, size_t used)
{
	size_t		length;

	if (used < 5)
		return 0;
	length = 5 + ((size_t) bytes[3] << 8 | bytes[4]);
	return length <= used ? length : 0;
}

/*
 * From the record with that number on something is done to the traffic; whole records are passed
 * only.
 */
static bool
meddle(Way *way, Mischief mischief, int number)
{
	size_t		first = record_length(way->bytes, way->used);
	size_t		second;

	if (first == 0)
		return false;
	if (way->records++ != number || mischief == NONE)
	{
		pass(way, first);
		return false;
	}
	second = record_length(way->bytes + first, way->used - first);
	switch (mischief)
	{
		case FLIP:
			way->bytes[first / 2] ^= 0x10;
			break;
		case DROP:
			memmove(way->bytes, way->bytes + first, way->used - first);
			way->used -= first;
			break;
		case REPEAT:
			memmove(way->bytes + first, way->bytes, way->used);
			way->used += first;
			break;
		case EXCHANGE:
			if (second > 0)
			{
				unsigned char *copy = malloc(first);

				memcpy(copy, way->bytes, first);
				memmove(way->bytes, way->bytes + first, second);
				memcpy(way->bytes + second, copy, first);
				free(copy);
			}
			else
				way->bytes[5] ^= 1;
			break;
		case CUT:
			/* the record's header says less */
			way->bytes[4]--;
			break;
		case INSERT:
			memmove(way->bytes + first, way->bytes, way->used);
			way->used += first;
			memset(way->bytes + 5, 'x', first - 5);
			break;
		default:
			/* bytes as they would be in clear */
			memset(way->bytes, 'R', first);
			break;
	}
	return true;
}

static bool
survives(Mischief mischief, int number, uint64_t rekey_after)
{
	enum
	{
		TOTAL = 1 << 20
	};
	Line		line;
	unsigned char *source = malloc(TOTAL);
	unsigned char *target = malloc(TOTAL);
	size_t		sent = 0;
	size_t		got = 0;
	bool		done = false;
	bool		ended = false;
	bool		right;
	int			idle = 0;

	for (size_t i = 0; i < TOTAL; i++)
		source[i] = byte_at(i);
	open_line(&line, "alike", "alike", rekey_after, 16);
	if (!shake_hands(&line, 65536))
		exit(2);
	while (got < TOTAL && !ended && idle++ < ROUNDS)
	{
		struct iovec iov = {source + sent, TOTAL - sent};
		ssize_t		part = sent < TOTAL ? rf_tls_send(line.ends[0], &iov, 1) :
			rf_tls_send(line.ends[0], NULL, 0);

		if (part > 0)
			sent += part;
		read_way(&line.ways[0]);
		if (!done)
			done = meddle(&line.ways[0], mischief, number);
		else
			pass(&line.ways[0], line.ways[0].used);
		/* nothing more comes where something is missing */
		if (done && line.ways[0].used == 0 && sent == TOTAL && !rf_tls_unsent(line.ends[0]) &&
			idle > ROUNDS / 2)
			shutdown(line.ways[0].to, SHUT_WR);
		part = rf_tls_receive(line.ends[1], target + got, TOTAL - got);
		if (part > 0)
		{
			got += part;
			idle = 0;
		}
		else if (part == 0 || errno != EAGAIN)
			ended = true;
	}
	right = memcmp(source, target, got) == 0;
	if (!right || (mischief != NONE && !ended))
	{
		check(right, "nothing but what was sent is received");
		check(mischief == NONE || ended, "and a change ends the connection");
	}
	if (mischief != NONE && rf_tls_receive(line.ends[1], target, 1) > 0)
		check(false, "nothing comes after an error");
	right = got == TOTAL;
	close_line(&line);
	free(source);
	free(target);
	return right;
}

int
main(void)
{
	static const char *const names[] = {"nothing",
		"a bit flipped",
		"a record dropped",
		"a record repeated",
		"two records exchanged",
		"a length changed",
		"a record inserted",
	"clear bytes"};

	good_days(1 << 20, 16);
	good_days(1 << 20, 1);
	good_days(1000, 2);
	good_days(1, 1);
	rekeying();
	strangers();
	check(survives(NONE, 0, 1 << 30), "all arrives where nobody does anything");
	for (Mischief mischief = FLIP; mischief < MISCHIEFS; mischief++)
	{
		bool		any = false;

		for (int number = 0; number < 40; number += 13)
		{
			any |= survives(mischief, number, 1 << 30);
			any |= survives(mischief, number, 5 * RF_TLS_RECORD);
		}
		check(!any, names[mischief]);
	}
	return failures ? 1 : 0;
}
