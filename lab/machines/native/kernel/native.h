/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the lab adds to a User-Mode Linux kernel before it builds it. */
#ifndef NATIVE_H
#define NATIVE_H

struct mm_id;

/* host.c */
void native_pin_cpu(int cpu);
void native_pin_process(struct mm_id *process);
int native_ipi_raise(int cpu, int vector);
int native_ipi_pending(void);
int native_wake_pending(void);
void native_ipi_run(void);

#endif
