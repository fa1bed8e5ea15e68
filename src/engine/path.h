/*
 * path.h - the agreement of the two ends of a connection while its data path is set up: which queue
 * pairs are connected and proven, when it is up, and when both ends give up the device and begin
 * again over the software transport. wire.h describes the messages.
 *
 * Events in, actions out: the caller (setup.c) has the queue pairs, the messages and the time.
 * Plain C; the engine's main thread only.
 */
#ifndef RF_PATH_H
#define RF_PATH_H

#include <stdbool.h>
#include <stdint.h>

typedef enum RfPathEvent
{
	RF_PATH_CONNECTED = 1,		/* our queue pairs are connected */
	RF_PATH_LINKED,				/* LINKED came */
	RF_PATH_PROVEN,				/* every queue pair is */
	RF_PATH_READY,				/* READY came */
	RF_PATH_DEAD,				/* our end found that nothing gets through */
	RF_PATH_BROKEN,				/* BROKEN came */
	RF_PATH_GONE				/* after RF_PATH_LET_GO: no queue pair is left */
} RfPathEvent;

/* Actions, a bit each; several are done in this order. */
#define RF_PATH_SEND_LINKED	0x01u
#define RF_PATH_PROVE		0x02u	/* post the proofs */
#define RF_PATH_UP			0x04u	/* flows may use it */
#define RF_PATH_SEND_READY	0x08u
#define RF_PATH_SEND_BROKEN	0x10u
#define RF_PATH_LET_GO		0x20u	/* release the queue pairs and all that was made for them */
#define RF_PATH_AGAIN		0x40u	/* make new queue pairs, over the software transport */
#define RF_PATH_FAIL		0x80u	/* the connection fails: the data path is dead */
#define RF_PATH_WRONG		0x100u	/* it fails: the other end sent an invalid message */
#define RF_PATH_WAIT		0x200u	/* the deadline is RfPath.tenths of rdma_fdw.connect_timeout
									 * from now */

typedef enum RfPathState
{
	RF_PATH_SETTING_UP = 0,
	RF_PATH_LETTING_GO,
	RF_PATH_IS_UP,
	RF_PATH_HAS_FAILED
} RfPathState;

typedef struct RfPath
{
	RfPathState state;
	bool		initiator;
	bool		may_fall_back;	/* the first attempt is not over the software transport, and both
								 * ends offer it */
	bool		fell_back;		/* this is the second attempt, or the way there */
	bool		broken_came;	/* later messages belong to the second attempt */
	bool		connected;
	bool		linked;
	bool		proven;
	bool		ready_sent;
	bool		ready_came;
	int			tenths;			/* time limit in this state since the last RF_PATH_WAIT */
} RfPath;

extern void rf_path_init(RfPath *path, bool initiator, bool may_fall_back);
extern uint32_t rf_path_event(RfPath *path, RfPathEvent event);

/*
 * Its deadline has passed: returns true if that means RF_PATH_DEAD. Otherwise it was not waiting
 * for a proof, and the connection fails.
 */
extern bool rf_path_unproven(const RfPath *path);

/*
 * Returns true for a QP, LINKED or READY of an attempt that this end has given up. Then ignore it.
 */
extern bool rf_path_void(const RfPath *path);

#endif
