/*
 * kept_memory.h - freed memory that a session keeps for its next statement.
 */
#ifndef RF_KEPT_MEMORY_H
#define RF_KEPT_MEMORY_H

/*
 * Makes the C library keep as much freed memory as rdma_fdw.kept_memory says. At the start of a
 * statement; cheap where nothing has changed.
 */
extern void rf_keep_memory(void);

#endif
