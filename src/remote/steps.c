/* steps.c - the hook of steps.h, which files call that call each other. */
#include "postgres.h"

#include "rdma_fdw/steps.h"

rf_step_hook_type rf_step_hook = NULL;
