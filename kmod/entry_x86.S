/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the driver's transmit function calls as its first instruction, on
 * x86-64.
 *
 * A function that is entered relies on its arguments, here the packet (rdi)
 * and the device (rsi), on the registers that a callee preserves, and on the
 * stack. sluice_entered() preserves all of that but the arguments, so these
 * are saved, as the kernel's own direct calls and BPF's trampolines do.
 *
 * CALL_DEPTH_TRACKING does not count the driver's call, but counts our return:
 * it believes the return stack emptier than it is, which is safe and costs a
 * refill now and then.
 */
#include <linux/linkage.h>
#include <asm/frame.h>

#include "compat.h"

#ifdef SLUICE_CALLS_DIRECTLY

/*
 * Its address is taken, so it begins with ENDBR. SYM_FUNC_START had that from
 * 5.18 to 6.17, and does not have it since.
 */
#ifndef ENDBR
#define ENDBR
#endif
#ifndef SYM_F_ALIGN
#define SYM_F_ALIGN SYM_A_ALIGN
#endif

SYM_START(sluice_entry, SYM_L_GLOBAL, SYM_F_ALIGN)
	ENDBR
	FRAME_BEGIN
	pushq	%rdi
	pushq	%rsi
	call	sluice_entered
	popq	%rsi
	popq	%rdi
	FRAME_END
	RET
SYM_FUNC_END(sluice_entry)

#ifdef CONFIG_FRAME_POINTER
#define UNLESS_FRAMES(instruction...)
#else
#define UNLESS_FRAMES(instruction...)	instruction
#endif

/*
 * void sluice_entry_try(unsigned long *registers): calls sluice_entry() with
 * the registers of direct.c's list, and stores what it left in them. The
 * others hold a pattern that a packet or a device cannot be mistaken for.
 *
 * Where stack traces follow rbp it must point to our frame when we call, which
 * objtool checks. There it is not tried: sluice_entry() saves it in its frame.
 */
SYM_FUNC_START(sluice_entry_try)
	FRAME_BEGIN
	UNLESS_FRAMES(pushq %rbp)
	pushq	%rbx
	pushq	%r12
	pushq	%r13
	pushq	%r14
	pushq	%r15
	pushq	%rdi
	movq	0x08(%rdi), %rsi
	movq	0x10(%rdi), %rbx
	UNLESS_FRAMES(movq 0x18(%rdi), %rbp)
	movq	0x20(%rdi), %r12
	movq	0x28(%rdi), %r13
	movq	0x30(%rdi), %r14
	movq	0x38(%rdi), %r15
	movq	0x00(%rdi), %rdi
	movq	$-0x5a5a5a5a, %rax
	movq	%rax, %rcx
	movq	%rax, %rdx
	movq	%rax, %r8
	movq	%rax, %r9
	movq	%rax, %r10
	movq	%rax, %r11
	call	sluice_entry
	popq	%rax
	movq	%rdi, 0x00(%rax)
	movq	%rsi, 0x08(%rax)
	movq	%rbx, 0x10(%rax)
	UNLESS_FRAMES(movq %rbp, 0x18(%rax))
	movq	%r12, 0x20(%rax)
	movq	%r13, 0x28(%rax)
	movq	%r14, 0x30(%rax)
	movq	%r15, 0x38(%rax)
	popq	%r15
	popq	%r14
	popq	%r13
	popq	%r12
	popq	%rbx
	UNLESS_FRAMES(popq %rbp)
	FRAME_END
	RET
SYM_FUNC_END(sluice_entry_try)

#endif

	.section .note.GNU-stack, "", %progbits	/* no executable stack */
