/* techniques.h - the table of measured techniques. */
#ifndef BENCH_TECHNIQUES_H
#define BENCH_TECHNIQUES_H

typedef struct Technique
{
	const char *name;
	const char *transports[5];	/* where it can be shown; the first is the one the table's target
								 * is meant for */
	void		(*run) (const char *transport);
} Technique;

/* nodes_growth.c */
extern void bench_nodes_growth(const char *transport);

extern const Technique techniques[];	/* ends with a NULL name */

#endif
