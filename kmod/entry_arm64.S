/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver's transmit function calls as its first instruction, on
 * arm64.
 *
 * It has moved its own return address from x30 to x9 before. It relies on its
 * arguments, here the packet (x0) and the device (x1), on the registers that a
 * callee preserves, and on x30 holding that address when we return to where our
 * x30 points. Two frame records, so that a stack trace shows the function and
 * its caller.
 */
#include <linux/linkage.h>

#include "compat.h"

#ifdef SLUICE_CALLS_DIRECTLY

SYM_FUNC_START(sluice_entry)
	stp	x29, x9, [sp, #-16]!
	mov	x29, sp
	stp	x29, x30, [sp, #-32]!
	mov	x29, sp
	stp	x0, x1, [sp, #16]
	bl	sluice_entered
	ldp	x0, x1, [sp, #16]
	ldp	x29, x10, [sp], #32
	ldp	x29, x30, [sp], #16
	ret	x10
SYM_FUNC_END(sluice_entry)

/*
 * void sluice_entry_try(unsigned long *registers): calls sluice_entry() with
 * the registers of direct.c's list, and stores what it left in them. The
 * others hold a pattern that a packet or a device cannot be mistaken for.
 */
SYM_FUNC_START(sluice_entry_try)
	stp	x29, x30, [sp, #-112]!
	mov	x29, sp
	stp	x19, x20, [sp, #16]
	stp	x21, x22, [sp, #32]
	stp	x23, x24, [sp, #48]
	stp	x25, x26, [sp, #64]
	stp	x27, x28, [sp, #80]
	str	x0, [sp, #96]
	mov	x9, x0
	ldp	x0, x1, [x9]
	ldp	x19, x20, [x9, #16]
	ldp	x21, x22, [x9, #32]
	ldp	x23, x24, [x9, #48]
	ldp	x25, x26, [x9, #64]
	ldp	x27, x28, [x9, #80]
	ldp	x29, x9, [x9, #96]
	mov	x2, #0x5a5a
	mov	x3, x2
	mov	x4, x2
	mov	x5, x2
	mov	x6, x2
	mov	x7, x2
	mov	x8, x2
	bl	sluice_entry
	ldr	x9, [sp, #96]
	stp	x0, x1, [x9]
	stp	x19, x20, [x9, #16]
	stp	x21, x22, [x9, #32]
	stp	x23, x24, [x9, #48]
	stp	x25, x26, [x9, #64]
	stp	x27, x28, [x9, #80]
	stp	x29, x30, [x9, #96]
	ldp	x27, x28, [sp, #80]
	ldp	x25, x26, [sp, #64]
	ldp	x23, x24, [sp, #48]
	ldp	x21, x22, [sp, #32]
	ldp	x19, x20, [sp, #16]
	ldp	x29, x30, [sp], #112
	ret
SYM_FUNC_END(sluice_entry_try)

#endif

	.section .note.GNU-stack, "", %progbits	/* no executable stack */
