#!/bin/sh
# SPDX-License-Identifier: GPL-2.0-only
#
# features.sh OUTPUT gcc|clang COMPILER...: what the kernel's headers offer; gcc or
# clang built the kernel.
#
# The source below each "has NAME" is compiled. Where that works OUTPUT gets
# "#define SLUICE_HAS_NAME"; compat.h says what for. A "need" that does not
# compile refuses the kernel, and its argument says why. The tests "always" and
# "never" check the compiler: the answers of one that accepts nothing, or
# everything, mean nothing. SLUICE_OTHER_HOOK: hook.c is the lab's own.

spdx="SPDX-License-""Identifier:" # apart: it is that of what is written
output=$1
built_with=$2
shift 2
work=$output.d
rm -rf "$work"
mkdir "$work" || exit 1
trap 'rm -rf "$work"' EXIT

refuse() {
	echo "sluice: $*; no module is built" >&2
	exit 1
}

case $("$1" --version 2>&1) in
*clang*) builds_with=clang advice="without LLVM=1" ;;
*) builds_with=gcc advice="with LLVM=1" ;;
esac
[ "$builds_with" = "$built_with" ] ||
	refuse "this kernel is built with $built_with, and $1 is $builds_with: run make $advice"

tests=
has() {
	tests="$tests $1"
	cat >"$work/$1.c"
}

needs=
need() { # NAME REASON
	needs="$needs $1"
	echo "$2" >"$work/$1.reason"
	cat >"$work/$1.c"
}

release=$(printf '#include <generated/utsrelease.h>\nUTS_RELEASE\n' |
	"$@" -E -P -x c - 2>/dev/null | tail -n 1 | tr -d '"')

# Since 5.8 (25f12ae45fc1); nobody has tried the module on 5.8 and 5.9.
need kernel_nofault "needs Linux 5.10 or newer, this is ${release:-older}" <<'END'
#include <linux/uaccess.h>
static int __maybe_unused try(int *to, int *from)
{
	return get_kernel_nofault(*to, from);
}
END

need dynamic_ftrace \
	"this kernel's CONFIG_DYNAMIC_FTRACE is off: the transmit function cannot be hooked" <<'END'
#if !defined(CONFIG_DYNAMIC_FTRACE) && !defined(SLUICE_OTHER_HOOK)
#error
#endif
END

need ftrace_arguments \
	"this kernel's CONFIG_DYNAMIC_FTRACE_WITH_ARGS and _WITH_REGS are off: a hook does not see the packet" <<'END'
#if !defined(CONFIG_DYNAMIC_FTRACE_WITH_REGS) && \
	!defined(CONFIG_HAVE_DYNAMIC_FTRACE_WITH_ARGS) && \
	!defined(SLUICE_OTHER_HOOK)
#error
#endif
END

need tun "this kernel's CONFIG_TUN is off: there is no device to serve" <<'END'
#if !defined(CONFIG_TUN) && !defined(CONFIG_TUN_MODULE)
#error
#endif
END

has always <<'END'
#include <linux/ftrace.h>
#include <linux/hrtimer.h>
#include <linux/ptrace.h>
END

has never <<'END'
#include <linux/ftrace.h>
static void __maybe_unused try(struct ftrace_ops *ops)
{
	sluice_no_kernel_has_this(ops);
}
END

has hrtimer_setup <<'END'
#include <linux/hrtimer.h>
static void __maybe_unused
try(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *))
{
	hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_REL);
}
END

has ftrace_regs <<'END'
#include <linux/ftrace.h>
static void try(unsigned long ip, unsigned long parent, struct ftrace_ops *ops,
		struct ftrace_regs *regs)
{
}
static struct ftrace_ops ops __maybe_unused = { .func = try };
END

has ftrace_args <<'END'
#include <linux/ftrace.h>
static unsigned long __maybe_unused try(struct ftrace_regs *regs)
{
	return ftrace_regs_get_argument(regs, 0);
}
END

has arch_regs <<'END'
#include <linux/ftrace.h>
static struct pt_regs *__maybe_unused try(struct ftrace_regs *regs)
{
	return &arch_ftrace_regs(regs)->regs;
}
END

has kernel_argument <<'END'
#include <linux/ptrace.h>
static unsigned long __maybe_unused try(struct pt_regs *regs)
{
	return regs_get_kernel_argument(regs, 0);
}
END

has recursion_safe <<'END'
#include <linux/ftrace.h>
static struct ftrace_ops ops __maybe_unused = {
	.flags = FTRACE_OPS_FL_RECURSION_SAFE,
};
END

has direct_ip <<'END'
#include <linux/ftrace.h>
static int __maybe_unused try(unsigned long ip, unsigned long addr)
{
	return register_ftrace_direct(ip, addr) ?:
	       unregister_ftrace_direct(ip, addr);
}
END

has direct_multi <<'END'
#include <linux/ftrace.h>
static int __maybe_unused try(struct ftrace_ops *ops, unsigned long addr)
{
	return register_ftrace_direct_multi(ops, addr) ?:
	       unregister_ftrace_direct_multi(ops, addr);
}
END

has direct_ops <<'END'
#include <linux/ftrace.h>
static int __maybe_unused try(struct ftrace_ops *ops, unsigned long addr)
{
	return register_ftrace_direct(ops, addr) ?:
	       unregister_ftrace_direct(ops, addr, false);
}
END

has ops_func <<'END'
#include <linux/ftrace.h>
static int try(struct ftrace_ops *ops, enum ftrace_ops_cmd cmd)
{
	return 0;
}
static struct ftrace_ops ops __maybe_unused = { .ops_func = try };
END

has ops_func_ip <<'END'
#include <linux/ftrace.h>
static int try(struct ftrace_ops *ops, unsigned long ip, enum ftrace_ops_cmd cmd)
{
	return 0;
}
static struct ftrace_ops ops __maybe_unused = { .ops_func = try };
END

has stop_stats <<'END'
#include <linux/netdevice.h>
#include <net/netdev_queues.h>
static u64 try(struct net_device *dev, struct netdev_queue_stats_tx *tx)
{
	dev->stat_ops->get_queue_stats_tx(dev, 0, tx);
	return tx->stop;
}
END

# All at once: each takes a second.
for name in $tests $needs; do
	"$@" -fsyntax-only -Wno-error -Werror=implicit-function-declaration \
		-Werror=incompatible-pointer-types -Werror=int-conversion \
		"$work/$name.c" >"$work/$name.log" 2>&1 &&
		touch "$work/$name.compiles" &
done
wait

if [ ! -e "$work/always.compiles" ]; then
	cat "$work/always.log" >&2
	why=$(sed -n 's/.*error: //p' "$work/always.log" | head -n 1)
	refuse "$1 does not compile this kernel's headers ($why): use the compiler that built it"
fi
[ -e "$work/never.compiles" ] && refuse "$1 accepts a function that does not exist"
for name in $needs; do
	[ -e "$work/$name.compiles" ] || refuse "$(cat "$work/$name.reason")"
done

found='' missing=''
for name in $tests; do
	case $name in always | never) continue ;; esac
	if [ -e "$work/$name.compiles" ]; then
		found="$found $name"
	else
		missing="$missing $name"
	fi
done
{
	echo "/* $spdx GPL-2.0-only */"
	for name in $found; do
		echo "#define SLUICE_HAS_$(echo "$name" | tr '[:lower:]' '[:upper:]')"
	done
	echo "#define SLUICE_FEATURES \"${found# }\""
} >"$output"
echo "sluice: this kernel has$found; it lacks$missing" >&2
