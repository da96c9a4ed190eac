// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Compiled into User-Mode Linux, on its host's side: interprocessor interrupts
 * that wait in memory while a CPU has its interrupts off, and threads that stay
 * on one CPU of the host.
 */
#include <sched.h>
#include <unistd.h>
#include <asm/unistd.h>
#include <smp.h>
#include <kern_util.h>
#include <mm_id.h>
#include <native.h>
#include "internal.h"

/* Vectors raised for a CPU that it has not handled yet, a bit for each. */
static struct {
	unsigned int vectors;
} __attribute__((aligned(64))) raised[CONFIG_NR_CPUS];

/* Whether the CPU needs a signal: not if one is under way already. */
int native_ipi_raise(int cpu, int vector)
{
	return !__atomic_fetch_or(&raised[cpu].vectors, 1U << vector,
				  __ATOMIC_SEQ_CST);
}

int native_ipi_pending(void)
{
	return !!__atomic_load_n(&raised[uml_curr_cpu()].vectors,
				 __ATOMIC_RELAXED);
}

/* Whether an idle CPU has anything to do. */
int native_wake_pending(void)
{
	return timer_alarm_pending() || native_ipi_pending();
}

/* Context: this CPU's interrupts are off. */
void native_ipi_run(void)
{
	unsigned int vectors, *own = &raised[uml_curr_cpu()].vectors;
	int vector;

	while ((vectors = __atomic_exchange_n(own, 0, __ATOMIC_SEQ_CST)))
		for (vector = 0; vectors >> vector; vector++)
			if (vectors >> vector & 1)
				uml_ipi_handler(vector);
}

/* The CPUs of the host we were started with. */
static cpu_set_t allowed;

/* The host's CPU that stands for a CPU of ours; they take turns if it has fewer. */
static void choose_host_cpu(int cpu, cpu_set_t *chosen)
{
	int host = -1;

	if (!CPU_COUNT(&allowed))
		syscall(__NR_sched_getaffinity, 0, sizeof(allowed), &allowed);
	for (cpu %= CPU_COUNT(&allowed); cpu >= 0; cpu--)
		do
			host++;
		while (!CPU_ISSET(host, &allowed));
	CPU_ZERO(chosen);
	CPU_SET(host, chosen);
}

/* By a bare call: the kernel has functions of the C library's names. */
static void pin(int thread, int cpu)
{
	cpu_set_t chosen;

	choose_host_cpu(cpu, &chosen);
	syscall(__NR_sched_setaffinity, thread, sizeof(chosen), &chosen);
}

/* The calling thread is this CPU. */
void native_pin_cpu(int cpu)
{
	pin(0, cpu);
}

/* A process of ours is about to run on the calling CPU. */
void native_pin_process(struct mm_id *process)
{
	int cpu = uml_curr_cpu();

	if (process->host_cpu == cpu)
		return;
	pin(process->pid, cpu);
	process->host_cpu = cpu;
}
