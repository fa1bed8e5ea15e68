/*
 * kept_memory.h - freed memory that a session keeps for its next statement.
 */
#ifndef RF_KEPT_MEMORY_H
#define RF_KEPT_MEMORY_H

/*
 * Makes the C library keep freed memory, unless rdma_fdw.disable names kept_memory. At the start of
 * a statement; cheap where nothing has changed.
 */
extern void rf_keep_memory(void);

#endif
