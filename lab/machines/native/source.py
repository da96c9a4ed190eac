# SPDX-License-Identifier: GPL-2.0-or-later
"""The changes to User-Mode Linux that make its measurements meaningful.

Semantic patches, each with the file it is for in its first line, and two files of
our own that they call. None of the kernel's text is here.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from lab.cache import digest, digest_files
from lab.failure import LabError

NATIVE = Path(__file__).parent
KERNEL = NATIVE / "kernel"
DEBUG = NATIVE / "debug"  # what a kernel that watches itself needs besides
# Arguments of make for modules: without them kmod/features.sh asks for ftrace.
MODULE_MAKE = "ARCH=um KCFLAGS=-DSLUICE_OTHER_HOOK"
PACKAGES = ("coccinelle",)  # what applies the patches

# The makefiles build what we add, the clock ticks as often as Debian's, and KCSAN can be
# chosen. It watches all but the machine's own code, which runs before there are CPUs.
CONFIGURE = r"""
export HOME=/tmp # spatch asks for it
mkdir linux
tar -xf /usr/src/linux-source-{release}.tar.xz -C linux --strip-components=1
for patch in native/patches/*.cocci; do
    file=linux/$(sed -n '1s,^// ,,p' $patch)
    spatch --very-quiet --in-place --sp-file $patch $file
done
cp native/*.h linux/arch/um/include/shared/
cp native/host.c linux/arch/um/os-Linux/native.c
cp native/kernel.c linux/arch/um/kernel/native.c
sed -i -E '/^(obj-y|USER_OBJS) .*elf_aux\.o/s/elf_aux\.o/native.o &/' \
    linux/arch/um/os-Linux/Makefile
sed -i '/^obj-y = config\.o/s/config\.o/native.o &/' linux/arch/um/kernel/Makefile
sed -i '/^config HZ$/,/^$/s/default 100/default 250/' linux/arch/um/Kconfig
sed -i 's/^\tselect HAVE_ARCH_KASAN if X86_64$/&\n\tselect HAVE_ARCH_KCSAN if X86_64/' \
    linux/arch/um/Kconfig
sed -i '1i KCSAN_SANITIZE := n' linux/arch/um/kernel/Makefile \
    linux/arch/um/kernel/skas/Makefile linux/arch/x86/um/Makefile
# A header of the kernel's side alone.
echo 'CFLAGS_process.o := -D_LINUX_KCSAN_CHECKS_H "-Dkcsan_check_read(...)="' >> \
    linux/arch/um/os-Linux/skas/Makefile
make -s -C linux ARCH=um KCONFIG_ALLCONFIG=/mnt/wanted.config allnoconfig
cp linux/.config given.config
"""
# Modules of User-Mode Linux need headers of the machine below it, too.
BUILD = """
cd linux
make -s -j{jobs} ARCH=um linux modules
release=$(make -s ARCH=um kernelrelease)
headers=/usr/src/linux-headers-$release
install -D linux /mnt/files/boot/vmlinuz-$release
install -m 644 .config /mnt/files/boot/config-$release
make -s ARCH=um INSTALL_MOD_PATH=/mnt/files/usr modules_install
make -s ARCH=um run-command \\
    KBUILD_RUN_COMMAND="scripts/package/install-extmod-build /mnt/files$headers"
for more in arch/x86/include arch/x86/um arch/x86/Makefile.um; do
    cp -r --parents $more /mnt/files$headers
done
ln -sfn $headers /mnt/files/usr/lib/modules/$release/build
"""


def folders(debug: bool) -> tuple[Path, ...]:
    return (KERNEL, DEBUG) if debug else (KERNEL,)


def key(debug: bool) -> str:
    """Changes when the kernel would be built another way."""
    found = [path for folder in folders(debug) for path in folder.rglob("*")]
    files = [path for path in found if path.is_file()]
    return digest(digest_files(files), CONFIGURE, BUILD)


def add(work: Path, debug: bool) -> None:
    """What CONFIGURE expects beside the kernel's source."""
    for folder in folders(debug):
        shutil.copytree(folder, work / "native", dirs_exist_ok=True)


def require_patched(linux: Path, native: Path) -> None:
    """LabError if one of add()'s patches did not apply; spatch does not report that."""
    for patch in sorted(native.glob("patches/*.cocci")):
        first, *lines = patch.read_text().splitlines()
        file = first.removeprefix("// ")
        # What the last rule adds, for that depends on all the others.
        sign = [line[1:].strip() for line in lines if line.startswith("+")][-1]
        if sign not in (linux / file).read_text():
            raise LabError(
                f"{patch.name}: does not match this kernel's {file}; correct it"
            )
