// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * Memory in steps.c. The module and the driver are compiled with gcc's
 * -fsanitize=thread against this file instead of its library, so each of their
 * accesses, marked or plain, calls a function here first. There another CPU may run,
 * and an access to memory that was freed, or that is outside of an object, is an error.
 *
 * CPUs see memory in order. What other orders do is asked by the litmus tests; that the
 * barriers they need are in the source is asked in queue_examples.c.
 */
#include "steps.h"

#define ARENA_SIZE	(4 << 20)
#define GRAIN		64
#define OBJECTS_MAX	4096
#define POISON		0xdb

struct object {
	char *start;
	size_t size;
	bool freed, of_module;
};

static char arena[ARENA_SIZE] __attribute__((aligned(4096)));
static size_t arena_used;
static u16 object_at[ARENA_SIZE / GRAIN];
static struct object objects[OBJECTS_MAX];	/* 0: none */
static unsigned int object_count;
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

static bool memory_readable(const volatile void *at, size_t size)
{
	const struct object *object = object_of(at);

	if (!in_arena(at))
		return (unsigned long)at > PAGE_SIZE && !IS_ERR(at);
	return object && (const char *)at + size <= object->start + object->size;
}

void memory_check(const volatile void *at, size_t size)
{
	const struct object *object = object_of(at);

	if (!memory_readable(at, size))
		fail("access outside of an object");
	if (object && object->freed)
		fail("access to memory that was freed");
}

/* get_kernel_nofault() */
int read_carefully(void *to, const void *from, size_t size)
{
	step_at(__builtin_return_address(0));
	if (!memory_readable(from, size))
		return -EFAULT;
	memory_check(from, size);
	memcpy(to, from, size);
	return 0;
}

static void *place_object(struct object *object)
{
	object->freed = object->of_module = false;
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
	object->freed = true;
	memset(start, POISON, object->size);
	return object->size;
}

void *allocate_for_module(size_t size)
{
	void *memory = memory_allocate(size);

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

void marked(const char *what, const volatile void *at, size_t size, const void *site)
{
	step_at(site);
	if (at)
		memory_check(at, size);
}

/* What gcc calls before each access of an instrumented source. */
static void before_access(const void *at, size_t size, const void *site)
{
	if (!on_stack(at))
		marked(NULL, at, size, site);
}

#define HOOK(name)							\
	void __tsan_##name(const void *at, size_t size)			\
	{ before_access(at, size, __builtin_return_address(0)); }
#define HOOKS(kind, size)						\
	void __tsan_##kind##size(const void *at)			\
	{ before_access(at, size, __builtin_return_address(0)); }
#define HOOKS_OF(kind) \
	HOOKS(kind, 1) HOOKS(kind, 2) HOOKS(kind, 4) HOOKS(kind, 8) HOOKS(kind, 16)
HOOKS_OF(read)
HOOKS_OF(write)
HOOKS_OF(unaligned_read)
HOOKS_OF(unaligned_write)
HOOK(read_range)
HOOK(write_range)
void __tsan_func_entry(void *caller) { (void)caller; }
void __tsan_func_exit(void) { }
void __tsan_init(void) { }
