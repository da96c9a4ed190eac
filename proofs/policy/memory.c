// SPDX-License-Identifier: GPL-2.0-or-later
/* What one CPU sees of memory; memory.h says it. */
#include "steps.h"

#define ARENA_SIZE	(4 << 20)
#define GRAIN		64
#define OBJECTS_MAX	4096
#define STORES_MAX	12
#define VALUES_MAX	40	/* more than most rings of the world have slots */
#define PLACES_MAX	4096	/* a power of two */
#define POISON		0xdb

/*
 * Each execution of a store has a number, the version. A CPU's loads are not
 * executed before its since: the version at its last barrier.
 */
struct object {
	char *start;
	size_t size;
	bool freed, of_module;
	u64 since[CPUS];	/* an address in it was loaded */
};

struct store {
	volatile void *at;
	u64 value;
	unsigned int size;
};

/* What was overwritten at one place: values, and by which version. */
struct place {
	const volatile void *at;
	unsigned int size, count;
	u64 old[VALUES_MAX], until[VALUES_MAX];
	u64 since[CPUS];	/* nothing older was read or written there */
};

static char arena[ARENA_SIZE] __attribute__((aligned(4096)));
static size_t arena_used;
static u16 object_at[ARENA_SIZE / GRAIN];
static struct object objects[OBJECTS_MAX];	/* 0: none */
static unsigned int object_count;
static struct place places[PLACES_MAX];
static struct store delayed[CPUS][STORES_MAX];
static unsigned int delayed_count[CPUS];
static u64 since[CPUS], version = 1;
static struct store plain;	/* happens after this moment; value: the old one */
enum memory_kind memory_kind;
bool memory_reused;

static bool in_arena(const volatile void *at)
{
	return (const char *)at >= arena && (const char *)at < arena + ARENA_SIZE;
}

static struct object *object_of(const volatile void *at)
{
	unsigned int id;

	if (!in_arena(at))
		return NULL;
	id = object_at[((const char *)at - arena) / GRAIN];
	return id ? &objects[id] : NULL;
}

static bool memory_readable(const void *at, size_t size)
{
	const struct object *object = object_of(at);

	if (!in_arena(at))
		return (unsigned long)at > PAGE_SIZE && !IS_ERR(at);
	return object && (const char *)at + size <= object->start + object->size;
}

void memory_check(const volatile void *at, size_t size)
{
	const struct object *object = object_of(at);

	if (!in_arena(at)) {
		if ((unsigned long)at < PAGE_SIZE)
			fail("access to NULL");
		return;
	}
	if (!object || (const char *)at + size > object->start + object->size)
		fail("access outside of an object");
	if (object->freed)
		fail("access to memory that was freed");
}

static u64 read_value(const volatile void *at, unsigned int size)
{
	u64 value = 0;

	memcpy(&value, (const void *)at, size);
	return value;
}

static struct place *place_of(const volatile void *at, bool wanted)
{
	unsigned int hash = (unsigned long)at * 0x9e3779b1u >> 8;
	struct place *place;

	for (;; hash++) {
		place = &places[hash % PLACES_MAX];
		if (place->at == at)
			return place;
		if (!place->at)
			break;
	}
	if (!wanted)
		return NULL;
	place->at = at;
	return place;
}

/* A store reaches memory. */
static void execute(unsigned int cpu, const struct store *store)
{
	struct place *place;

	memory_check(store->at, store->size);
	version++;
	if (memory_kind == MEMORY_WEAK && in_arena(store->at)) {
		place = place_of(store->at, true);
		if (place->size != store->size)
			place->count = 0;
		if (place->count == VALUES_MAX) {
			place->count--;
			memmove(place->old, place->old + 1, sizeof(place->old) - 8);
			memmove(place->until, place->until + 1, sizeof(place->until) - 8);
		}
		place->size = store->size;
		place->old[place->count] = read_value(store->at, store->size);
		place->until[place->count++] = version;
		place->since[cpu] = version;
	}
	memcpy((void *)store->at, &store->value, store->size);
}

static void execute_delayed(unsigned int cpu, unsigned int index)
{
	struct store store = delayed[cpu][index];

	delayed_count[cpu]--;
	memmove(&delayed[cpu][index], &delayed[cpu][index + 1],
		(delayed_count[cpu] - index) * sizeof(store));
	execute(cpu, &store);
}

static bool overlap(const struct store *store, const volatile void *at, size_t size)
{
	const volatile char *one = store->at, *other = at;

	return one < other + size && other < one + store->size;
}

void memory_flush(unsigned int cpu)
{
	while (delayed_count[cpu])
		execute_delayed(cpu, 0);
}

/* All to this place are executed; in order, so are those before them. */
static void flush_place(unsigned int cpu, const volatile void *at, size_t size)
{
	unsigned int i, last = 0;

	for (i = 0; i < delayed_count[cpu]; i++)
		if (overlap(&delayed[cpu][i], at, size))
			last = i + 1;
	for (i = 0; last; last--)
		if (memory_kind != MEMORY_WEAK || overlap(&delayed[cpu][i], at, size))
			execute_delayed(cpu, i);
		else
			i++;
}

void memory_drain(void)
{
	unsigned int cpu = chance(CPUS), at, first;

	if (!delayed_count[cpu])
		return;
	at = memory_kind == MEMORY_WEAK ? chance(delayed_count[cpu]) : 0;
	for (first = 0; first < at; first++)
		if (overlap(&delayed[cpu][first], delayed[cpu][at].at,
			    delayed[cpu][at].size))
			break;
	execute_delayed(cpu, first);
}

static void delay_store(unsigned int cpu, const struct store *store)
{
	if (delayed_count[cpu] == STORES_MAX)
		execute_delayed(cpu, 0);
	delayed[cpu][delayed_count[cpu]++] = *store;
}

void memory_settle(void)
{
	struct store store = plain;

	if (!store.at)
		return;
	plain.at = NULL;
	store.value = read_value(store.at, store.size);
	memcpy((void *)store.at, &plain.value, store.size);
	delay_store(this_cpu(), &store);
}

/* Loads of what a pointer leads to are not executed before that of the pointer. */
static void saw_pointer(unsigned int cpu, u64 value, size_t size)
{
	struct object *object;

	if (memory_kind != MEMORY_WEAK || size != sizeof(void *))
		return;
	object = object_of((void *)value);
	if (object)
		object->since[cpu] = version;
}

/*
 * Which of the place's old values is loaded; place->count if what is there now.
 */
static unsigned int choose_value(const struct place *place, unsigned int cpu)
{
	u64 from = max(since[cpu], place->since[cpu]);
	unsigned int i, first;
	const struct object *object = object_of(place->at);

	if (object)
		from = max(from, object->since[cpu]);
	for (first = 0; first < place->count && place->until[first] <= from; first++)
		;
	i = place->count - first;
	return i && chance(3) == 0 ? first + chance(i) : place->count;
}

/* Returns the version from which on the value was there. */
static u64 load_value(const volatile void *at, void *to, unsigned int size)
{
	unsigned int i, cpu = this_cpu();
	struct place *place;
	u64 value, from = 0;

	memory_check(at, size);
	for (i = delayed_count[cpu]; i--;)
		if (delayed[cpu][i].at == at && delayed[cpu][i].size == size) {
			memcpy(to, &delayed[cpu][i].value, size);
			return 0;
		}
	flush_place(cpu, at, size);
	value = read_value(at, size);
	place = memory_kind == MEMORY_WEAK ? place_of(at, false) : NULL;
	if (place && place->size == size && place->count) {
		i = choose_value(place, cpu);
		if (i < place->count)
			value = place->old[i];
		from = i ? place->until[i - 1] : 0;
		place->since[cpu] = max(place->since[cpu], from);
	}
	memcpy(to, &value, size);
	saw_pointer(cpu, value, size);
	return from;
}

void memory_load(const volatile void *at, void *to, size_t size)
{
	step_at(__builtin_return_address(0));
	load_value(at, to, size);
}

void memory_load_acquire(const volatile void *at, void *to, size_t size)
{
	u64 from;

	step_at(__builtin_return_address(0));
	from = load_value(at, to, size);
	since[this_cpu()] = max(since[this_cpu()], from);
}

/* get_kernel_nofault() */
int read_carefully(void *to, const void *from, size_t size)
{
	step_at(__builtin_return_address(0));
	if (!memory_readable(from, size))
		return -EFAULT;
	load_value(from, to, size);
	return 0;
}

static void store_value(volatile void *at, const void *value, unsigned int size)
{
	struct store store = { .at = at, .size = size };

	memory_check(at, size);
	memcpy(&store.value, value, size);
	if (memory_kind == MEMORY_IN_ORDER || !in_arena(at))
		execute(this_cpu(), &store);
	else
		delay_store(this_cpu(), &store);
}

void memory_store(volatile void *at, const void *value, size_t size)
{
	step_at(__builtin_return_address(0));
	store_value(at, value, size);
}

void memory_store_release(volatile void *at, const void *value, size_t size)
{
	step_at(__builtin_return_address(0));
	memory_flush(this_cpu());
	store_value(at, value, size);
}

void memory_fence(void)
{
	step_at(__builtin_return_address(0));
	memory_flush(this_cpu());
	since[this_cpu()] = version;
}

void memory_fence_read(void)
{
	step_at(__builtin_return_address(0));
	since[this_cpu()] = version;
}

void memory_fence_write(void)
{
	step_at(__builtin_return_address(0));
	memory_flush(this_cpu());
}

void memory_locked(void)
{
	memory_settle();
	since[this_cpu()] = version;
}

void memory_unlocked(void)
{
	memory_settle();
	memory_flush(this_cpu());
}

u64 memory_add(u64 old, u64 operand) { return old + operand; }
u64 memory_or(u64 old, u64 operand) { return old | operand; }
u64 memory_and(u64 old, u64 operand) { return old & operand; }

u64 memory_exchange(volatile void *at, size_t size, bool ordered,
		    u64 (*change)(u64 old, u64 operand), u64 operand)
{
	struct store store = { .at = at, .size = size };
	unsigned int cpu = this_cpu();
	u64 old;

	step_at(__builtin_return_address(0));
	memory_check(at, size);
	if (ordered)
		memory_unlocked();
	else
		flush_place(cpu, at, size);
	old = read_value(at, size);
	store.value = change(old, operand);
	execute(cpu, &store);
	if (ordered)
		memory_locked();
	return old;
}

s64 memory_compare_exchange(s64 *at, s64 old, s64 new)
{
	struct store store = { .at = at, .value = new, .size = sizeof(*at) };
	s64 was;

	step_at(__builtin_return_address(0));
	memory_check(at, sizeof(*at));
	memory_unlocked();
	was = *at;
	if (was == old)
		execute(this_cpu(), &store);
	memory_locked();
	return was;
}

static void *place_object(struct object *object)
{
	unsigned int cpu;

	object->freed = object->of_module = false;
	for (cpu = 0; cpu < CPUS; cpu++)
		object->since[cpu] = version;
	return memset(object->start, 0, object->size);
}

void *memory_allocate(size_t size)
{
	size_t grains = size / GRAIN + 2;	/* one beyond it is nobody's */
	struct object *object;
	unsigned int i;

	for (i = 1; memory_reused && i <= object_count; i++)
		if (objects[i].freed && objects[i].size == size)
			return place_object(&objects[i]);
	if (++object_count == OBJECTS_MAX ||
	    arena_used + grains * GRAIN > ARENA_SIZE)
		fail("the world's memory is used up");
	object = &objects[object_count];
	object->start = arena + arena_used;
	object->size = size;
	for (i = 0; i < grains - 1; i++)
		object_at[arena_used / GRAIN + i] = object_count;
	arena_used += grains * GRAIN;
	return place_object(object);
}

size_t memory_free(void *start)
{
	struct object *object = object_of(start);

	if (!object || object->start != start)
		fail("what is freed is no object");
	if (object->freed)
		fail("an object is freed twice");
	memory_unlocked();
	object->freed = true;
	memset(start, POISON, object->size);
	return object->size;
}

void *allocate_for_module(size_t size)
{
	void *memory;

	if (allocation_fails())
		return NULL;
	memory = memory_allocate(size);
	object_of(memory)->of_module = true;
	return memory;
}

/* When all is over: what the module allocated it has freed. */
void check_leaks(void)
{
	unsigned int i;

	for (i = 1; i <= object_count; i++)
		if (objects[i].of_module && !objects[i].freed)
			fail("%zu bytes were not freed", objects[i].size);
}

/* What gcc calls before each access of an instrumented source. */
static void before_load(const void *at, size_t size, const void *site)
{
	unsigned int cpu;
	struct place *place;

	if (on_stack(at))
		return;
	step_at(site);
	memory_check(at, size);
	if (memory_kind == MEMORY_IN_ORDER)
		return;
	cpu = this_cpu();
	flush_place(cpu, at, size);
	place = memory_kind == MEMORY_WEAK ? place_of(at, false) : NULL;
	if (place && place->count)
		place->since[cpu] = place->until[place->count - 1];
	if (size == sizeof(void *))
		saw_pointer(cpu, read_value(at, size), size);
}

static void before_store(const void *at, size_t size, const void *site)
{
	if (on_stack(at))
		return;
	step_at(site);
	memory_check(at, size);
	if (memory_kind == MEMORY_IN_ORDER || !in_arena(at))
		return;
	if (size > sizeof(u64) || (unsigned long)at % size) {
		memory_flush(this_cpu());
		return;
	}
	plain = (struct store){ (volatile void *)at, read_value(at, size), size };
}

#define HOOKS(size)							\
	void __tsan_read##size(const void *at)				\
	{ before_load(at, size, __builtin_return_address(0)); }		\
	void __tsan_write##size(const void *at)				\
	{ before_store(at, size, __builtin_return_address(0)); }	\
	void __tsan_unaligned_read##size(const void *at)		\
	{ before_load(at, size, __builtin_return_address(0)); }		\
	void __tsan_unaligned_write##size(const void *at)		\
	{ before_store(at, size, __builtin_return_address(0)); }
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(const void *at, size_t size)
{ before_load(at, size, __builtin_return_address(0)); }
void __tsan_write_range(const void *at, size_t size)
{
	before_load(at, size, __builtin_return_address(0));
	memory_flush(this_cpu());
}
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) { }
void __tsan_init(void) { }
