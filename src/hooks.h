/*
 * hooks.h - PostgreSQL's hooks, see hooks.c.
 */
#ifndef RF_HOOKS_H
#define RF_HOOKS_H

/* Called once, when the library is loaded. */
extern void rf_install_hooks(void);

#endif
