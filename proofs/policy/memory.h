/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What one CPU sees of memory in steps.c. The module and the driver are compiled
 * with gcc's -fsanitize=thread against memory.c instead of its library, so each
 * of their accesses, marked or plain, calls a function here first. There
 *
 *   - another CPU may run;
 *   - an access to memory that was freed, or that is outside of an object, is an
 *     error;
 *   - a store may be delayed in its CPU's store buffer until a barrier, a release
 *     or an unlock: in order (as on x86) or, but for stores to the same place, in
 *     any order;
 *   - a marked load may return a value that was overwritten since the last read
 *     barrier, acquire or lock of its CPU, as if it had been executed early. Not
 *     one from before the address was loaded: an address dependency orders.
 */
#ifndef POLICY_MEMORY_H
#define POLICY_MEMORY_H

void memory_load(const volatile void *at, void *to, size_t size);
void memory_load_acquire(const volatile void *at, void *to, size_t size);
void memory_store(volatile void *at, const void *value, size_t size);
void memory_store_release(volatile void *at, const void *value, size_t size);
void memory_fence(void);
void memory_fence_read(void);
void memory_fence_write(void);
u64 memory_exchange(volatile void *at, size_t size, bool ordered,
		    u64 (*change)(u64 old, u64 operand), u64 operand);
s64 memory_compare_exchange(s64 *at, s64 old, s64 new);
u64 memory_add(u64 old, u64 operand);
u64 memory_or(u64 old, u64 operand);
u64 memory_and(u64 old, u64 operand);

unsigned int this_cpu(void);
void step_at(const void *site);


#define READ_ONCE(x) ({						\
	unqualified(x) __value;					\
	memory_load(&(x), &__value, sizeof(__value));		\
	__value; })
#define WRITE_ONCE(x, value) do {				\
	unqualified(x) __value = (value);			\
	memory_store(&(x), &__value, sizeof(__value));		\
} while (0)
#define smp_load_acquire(p) ({					\
	unqualified(*(p)) __value;				\
	memory_load_acquire(p, &__value, sizeof(__value));	\
	__value; })
#define smp_store_release(p, value) do {			\
	unqualified(*(p)) __value = (value);			\
	memory_store_release(p, &__value, sizeof(__value));	\
} while (0)
#define smp_rmb()		memory_fence_read()
#define smp_wmb()		memory_fence_write()
#define smp_mb()		memory_fence()
#define fetch_add(at, n) \
	memory_exchange(at, sizeof(*(at)), false, memory_add, n)
#define fetch_or(at, bits) \
	memory_exchange(at, sizeof(*(at)), true, memory_or, bits)
#define fetch_and(at, bits) \
	memory_exchange(at, sizeof(*(at)), true, memory_and, bits)
#define atomic64_cmpxchg(v, old, new) \
	memory_compare_exchange(&(v)->counter, old, new)

#endif
