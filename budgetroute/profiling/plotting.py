"""Draws a profile: a panel per type, rewards with intervals over cost on a log axis, the hull."""

from __future__ import annotations

import io
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from budgetroute.curves import hull
from budgetroute.errors import ProfileError
from budgetroute.profiling.certainty import interval

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from budgetroute.profiles import CostOf
    from budgetroute.records import Action, Cell, Profile

Form: TypeAlias = Literal["svg", "png"]

COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31",
    "#882255", "#7F7F7F",
)  # fmt: skip
"""Okabe and Ito's, told apart by colour-blind people, and three more; the markers differ too."""
MARKERS = "osD^vP*X<>hp"
WORDS = {True: "sensitive", False: "insensitive", None: "not judged"}
PANEL_INCHES = (4.6, 3.5)
MOST_COLUMNS = 3
HULL_COLOUR = "#444444"
APART = 0.17
"""Least distance between two written caps, as part of the panel's width."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One cell as it is drawn."""

    action: Action
    cost: float
    cell: Cell


def plot_profile(
    profile: Profile, cost_of: CostOf, *, form: Form = "svg", types: Sequence[str] = ()
) -> bytes:
    """Return a picture of a profile's curves.

    Args:
        profile: what is drawn.
        cost_of: expected dollars of (action, cell, type); actions without a price are left out.
        form: `svg` or `png`.
        types: the types to draw; none = all, `general` last.

    Raises:
        ProfileError: matplotlib is missing, or there is nothing to draw.
    """
    figure_type, rc = _matplotlib()
    dots = {kind: _dots(profile, kind, cost_of) for kind in types or _in_order(profile)}
    dots = {kind: found for kind, found in dots.items() if found}
    if not dots:
        raise ProfileError(f"profile {profile.name!r}: no action has a price: nothing to draw")
    looks = _looks(profile)
    settings = {
        "svg.hashsalt": "budgetroute",  # the same picture, the same bytes
        "svg.fonttype": "path",
        "text.parse_math": False,  # a name may hold dollar signs
        "font.size": 9,
    }
    with rc(settings):
        figure = _drawn(profile, dots, looks, figure_type=figure_type)
        made = io.BytesIO()
        date = {"Date": None} if form == "svg" else {}
        figure.savefig(made, format=form, dpi=150, metadata=date)
    return made.getvalue()


def _matplotlib() -> tuple[Any, Any]:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as err:
        raise ProfileError(
            "drawing needs matplotlib, which is not installed: pip install 'budgetroute[report]'"
        ) from err
    return Figure, rc_context


def _in_order(profile: Profile) -> list[str]:
    return sorted(profile.types, key=lambda kind: (kind == "general", kind))


def _dots(profile: Profile, kind: str, cost_of: CostOf) -> list[Dot]:
    row = profile.cells.get(kind, ())
    return [
        Dot(action, cost, cell)
        for action, cell in zip(profile.actions, row, strict=True)
        if cell is not None
        and (cost := cost_of(action, cell, profile.types[kind])) is not None
        and cost > 0
    ]


def _looks(profile: Profile) -> dict[str, tuple[str, str]]:
    models = list(dict.fromkeys(action.model for action in profile.actions))
    return {
        model: (COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)])
        for i, model in enumerate(models)
    }


def _drawn(
    profile: Profile,
    dots: Mapping[str, Sequence[Dot]],
    looks: Mapping[str, tuple[str, str]],
    *,
    figure_type: Any,  # noqa: ANN401 - matplotlib is imported late
) -> Any:  # noqa: ANN401 - a Figure
    columns = min(MOST_COLUMNS, len(dots))
    rows = math.ceil(len(dots) / columns)
    legend = 0.26 * math.ceil((len(looks) + 4) / columns / 1.6) + 0.35
    size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + legend + 0.5)
    figure = figure_type(figsize=size, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for panel, (kind, found) in zip(panels, dots.items(), strict=False):
        _draw_panel(panel, found, looks)
        word = WORDS[profile.types[kind].sensitive]
        panel.set_title(f"{kind} · {word}", fontsize=11, loc="left", fontweight="bold")
    for panel in panels[len(dots) :]:
        panel.set_axis_off()
    figure.suptitle(
        f"Profile {profile.name}, {profile.created}: quality over the cost of one call",
        fontsize=13,
    )
    shown = {dot.action.model for found in dots.values() for dot in found}
    figure.legend(
        handles=_legend({model: look for model, look in looks.items() if model in shown}),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
    )
    return figure


def _draw_panel(panel: Any, dots: Sequence[Dot], looks: Mapping[str, tuple[str, str]]) -> None:  # noqa: ANN401 - an Axes
    vertices = [dots[i] for i in hull([(dot.cost, dot.cell.reward) for dot in dots])]
    panel.plot(
        [dot.cost for dot in vertices],
        [dot.cell.reward for dot in vertices],
        color=HULL_COLOUR,
        linewidth=1.6,
        zorder=2,
    )
    for dot in dots:
        _draw_dot(panel, dot, looks[dot.action.model], is_vertex=dot in vertices)
    panel.set_xscale("log")
    panel.set_xlabel("dollars per call")
    panel.set_ylabel("mean reward")
    low = min(dot.cell.reward for dot in vertices)
    panel.set_ylim(max(-0.02, low - 0.25), 1.07)
    panel.xaxis.set_major_formatter(_dollars)
    panel.grid(visible=True, which="major", color="#dddddd", linewidth=0.6, zorder=0)
    panel.spines[["top", "right"]].set_visible(False)
    panel.margins(x=0.08)
    _name_vertices(panel, vertices)


def _dollars(value: float, _position: int) -> str:
    return f"${value:f}".rstrip("0").rstrip(".")


def _draw_dot(panel: Any, dot: Dot, look: tuple[str, str], *, is_vertex: bool) -> None:  # noqa: ANN401 - an Axes
    colour, marker = look
    low, high = interval(dot.cell)
    opacity = 1.0 if is_vertex else 0.45
    panel.errorbar(
        [dot.cost],
        [dot.cell.reward],
        yerr=[[max(0.0, dot.cell.reward - low)], [max(0.0, high - dot.cell.reward)]],
        fmt=marker,
        markersize=7 if is_vertex else 5,
        color=colour,
        markerfacecolor=colour if dot.cell.n > 0 else "white",
        markeredgecolor=colour,
        elinewidth=1.0,
        alpha=opacity,
        zorder=4 if is_vertex else 3,
    )


def _name_vertices(panel: Any, vertices: Sequence[Dot]) -> None:  # noqa: ANN401 - an Axes
    """Write caps over the intervals, from the dear end, leaving out what would touch."""
    left, right = (math.log(end) for end in panel.get_xlim())
    last = math.inf
    for dot in reversed(vertices):
        place = (math.log(dot.cost) - left) / (right - left)
        if last - place < APART:
            continue
        last = place
        panel.annotate(
            _cap_words(dot.action),
            (dot.cost, min(1.0, interval(dot.cell)[1])),
            textcoords="offset points",
            xytext=(0, 3),
            ha="center",
            fontsize=7.5,
            color="#222222",
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.6},
            zorder=6,
        )


def _cap_words(action: Action) -> str:
    words = [str(action.max_tokens), *["cot"] * action.cot, action.reasoning_effort or ""]
    return " ".join(word for word in words if word)


def _legend(looks: Mapping[str, tuple[str, str]]) -> list[Any]:
    from matplotlib.lines import Line2D

    def line(**style: Any) -> Any:  # noqa: ANN401 - matplotlib's own arguments
        return Line2D([], [], **style)

    models = [
        line(marker=marker, color=colour, linestyle="", label=model)
        for model, (colour, marker) in looks.items()
    ]
    plain = {"color": "#666666", "linestyle": "", "marker": "o"}
    return [
        *models,
        line(color=HULL_COLOUR, linewidth=1.6, label="hull: what can win; its caps are written"),
        line(**plain, label="measured"),
        line(**plain, markerfacecolor="white", label="estimated (pooled)"),
        line(color="#666666", linestyle="", marker="|", markersize=11, label="95 % interval"),
    ]
