# SPDX-License-Identifier: GPL-2.0-or-later
"""sluice status: every tun and tap device, what happens to it, and why."""

from __future__ import annotations

import dataclasses

import click

from sluice import devices, options, output, system
from sluice.devices import NOQUEUE, STOCK, View
from sluice.errors import FINE, NO, Gone, SluiceError


def format_owners(view: View, seen: bool = True) -> str:
    if not view.owners:
        return "nobody" if seen else "not to be seen; run it as root"
    return ", ".join(
        f"{owner.command} ({owner.pid})" + (" with vhost-net" if owner.vhost else "")
        for owner in view.owners
    )


def format_ring(view: View) -> str:
    if not view.total("ring"):  # only the module knows the fill of a ring
        each = f"{view.queue_count} x " if view.queue_count > 1 else ""
        return f"{each}{view.ring} packets"
    fill, ring = view.total("fill"), view.total("ring")
    each = f" in {len(view.queues)} queues" if len(view.queues) > 1 else ""
    text = f"fill {fill} of {ring}{each}"
    first = view.queues[0]
    if view.state == "served" and view.qdisc != NOQUEUE and first.limit:
        text += f"; stops at {first.limit}, wakes at {first.low}"
    return text


def format_counts(view: View) -> str:
    text = f"{view.total('stops')}, wakes {view.wakes}, stalls {view.total('stalls')}"
    longest = max((queue.longest_stop_ns for queue in view.queues), default=0)
    return f"{text}, longest stop {longest / 1e6:.1f} ms" if longest else text


def format_drops(view: View) -> str:
    if view.on is None:
        return f"{view.tx_dropped}"
    return f"{view.total('drops')} at a full ring while on, {view.tx_dropped} in all"


def _styled_why(view: View) -> str:
    if view.why.startswith(("refused", "stalled")):
        return output.bad(view.why)
    return output.good(view.why) if view.why == "served" else output.notable(view.why)


def format_device(view: View, seen: bool = True) -> list[str]:
    switch = {None: STOCK, True: "on", False: "off"}[view.on]
    what = switch if view.why == switch else f"{switch}, {view.why}"
    head, *more = output.wrap(what, f"{view.name} ({view.kind}): ", "  ")
    # Styled after wrapping: a terminal's codes have no width.
    head = head.replace(view.name, output.bold(view.name), 1)
    head = head.replace(view.why, _styled_why(view)) if not more else head
    lines = [head, *more]
    lines += output.wrap(format_owners(view, seen), "  owner   ")
    lines += output.wrap(view.qdisc, "  qdisc   ")
    lines += output.wrap(format_ring(view), "  ring    ")
    if view.on is not None:
        lines += output.wrap(format_counts(view), "  stops   ")
    return lines + output.wrap(format_drops(view), "  drops   ")


def format_status(
    views: list[View], loaded: bool, names: list[str], seen: bool = True
) -> list[str]:
    """names: the namespaces; with several each has a heading of its own."""
    lines = []
    if not loaded:
        lines += output.wrap("module: not loaded, stock behaviour; see: sluice doctor")
    for name in names:
        found = [view for view in views if view.netns == name]
        if len(names) > 1 and found:
            heading = f"netns {name}" if name else "this netns"
            lines += ([""] if lines else []) + [output.bold(heading)]
        for place, view in enumerate(found):
            under_heading = place == 0 and len(names) > 1
            lines += [""] if lines and not under_heading else []
            lines += format_device(view, seen)
    if not views:
        where = "these namespaces" if len(names) > 1 else "this namespace"
        lines.append(f"no tun or tap device in {where}")
    return lines


def view_json(view: View) -> dict[str, object]:
    """A view as programs see it: the counters in sums as well."""
    totals = {name: view.total(name) for name in ("fill", "stops", "stalls", "drops")}
    return {**dataclasses.asdict(view), **totals, "wakes": view.wakes}


def read_status(
    names: list[str], with_owners: bool = True
) -> tuple[list[View], list[str], list[SluiceError]]:
    """The devices, the namespaces they are in, and why some cannot be entered."""
    owners = system.read_owners() if with_owners else {}
    views: list[View] = []
    entered: dict[int, str] = {}
    failed: list[SluiceError] = []
    for name in names:
        try:
            with system.netns(name) as where:
                if where.inode in entered:  # this one has a name, too
                    continue
                entered[where.inode] = name
                views += devices.read_views(where, owners)
        except Gone as error:
            if len(names) == 1:  # who asked for all did not ask for this one
                failed.append(error)
        except SluiceError as error:
            failed.append(error)
    return views, list(entered.values()), failed


@click.command()
@options.names_argument(required=False)
@options.netns_option
@options.all_netns_option
@options.json_option
def status(names: tuple[str, ...], netns: str, all_netns: bool, as_json: bool) -> int:
    """Show the tun and tap devices, what happens to them, and why."""
    chosen = options.chosen_netns(netns, all_netns)
    views, entered, failed = read_status(chosen)
    if failed and len(chosen) == 1:
        raise failed[0]
    version = system.read_module_version()
    devices.check_found(views, names)
    views = devices.matching(views, names)
    if as_json:
        module = {"loaded": bool(version), "version": version}
        output.say_json({"module": module, "devices": [view_json(v) for v in views]})
    else:
        seen = system.is_root()
        output.say(format_status(views, bool(version), entered, seen))
    for error in failed:
        output.complain(str(error))
    return NO if failed else FINE
