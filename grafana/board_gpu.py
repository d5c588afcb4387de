"""GPU & VRAM: what fills the GPUs? Per device by uuid; per model with its source; DCGM joined by uuid."""

from __future__ import annotations

from dataclasses import replace

from grafana.board import Board, Section
from grafana.grafana_units import CELSIUS, MEGAHERTZ
from grafana.model_panels import memory
from grafana.panels import AMBER, RED, About, Drawn, Query, bars, lines, tile, words
from grafana.parameters import Parameters
from grafana.queries import Queries, shown
from grafana.variables import app, datasource, exporter_job, gpus, models, servers
from signals.definition import Level
from signals.devices import DCGM_MIB_BYTES
from telemetry.units import Unit

_GPU = "{{gpu_uuid}}"
_EVERYBODY = (
    "Of the device, whoever uses it: servers that share a GPU report the same memory, so it is never summed."
)
_ABSENT = (
    "**No figures here?** Triton reports no `nv_gpu_*` on MIG GPUs, with another DCGM on the machine, with "
    "`--allow-gpu-metrics=false`, and without a GPU or driver. Absent is not idle: look at *DCGM* and "
    "*MIG instances* below."
)


def board(parameters: Parameters) -> Board:
    """The board."""
    queries = Queries(parameters, by_gpu=True)
    sections = (
        Section("Now", _now(queries)),
        Section("GPUs as Triton reports them", _triton(queries)),
        Section("The host", _host(queries)),
        Section("Memory by model", [_models(queries)], "Tritonscope's exporter"),
        Section("DCGM", _dcgm(queries), "NVIDIA's dcgm-exporter"),
        Section("MIG instances", _mig(queries), "NVIDIA's dcgm-exporter on MIG GPUs"),
    )
    variables = [
        datasource(),
        *servers(parameters),
        gpus(queries),
        *models(queries),
        exporter_job(queries),
        app(parameters),
    ]
    return Board(
        "tritonscope-gpu",
        "Triton GPU & VRAM",
        "What fills the GPUs?",
        variables,
        sections,
        page="gpu",
        parameters=parameters,
    )


def text() -> str:
    """The committed file."""
    return board(Parameters()).text()


def _now(queries: Queries) -> list[Drawn]:
    used = shown("memory_used_ratio", Level.GPU)
    busy = shown("utilization_ratio", Level.GPU)
    full = [(0.9, AMBER), (0.97, RED)]
    return [
        bars(
            About(
                f"{used.title}, by GPU",
                f"{_EVERYBODY} Good: room for the next model; a full GPU is not wrong by itself.",
                used.unit,
                empty="Triton reports no GPU",
                width=12,
                height=6,
                maximum=1,
            ),
            Query(queries.gpu(used.name), _GPU),
            full,
        ),
        bars(
            About(
                f"{busy.title}, by GPU",
                f"{busy.formula[0].upper()}{busy.formula[1:]}. Good: "
                f"busy under load; idle "
                "while requests queue: the GPU is not the "
                "bottleneck.",
                busy.unit,
                empty="Triton reports no GPU",
                width=8,
                height=6,
                maximum=1,
            ),
            Query(queries.gpu(busy.name), _GPU),
        ),
        tile(
            About(
                "GPUs",
                "GPUs that the chosen servers report, each once. Good: all that were bought.",
                Unit.COUNT,
                empty="none reported",
                width=4,
                height=6,
            ),
            Query(f"count({queries.gpu('memory_total_bytes')})"),
        ),
        words("Without GPU figures", _ABSENT),
    ]


def _triton(queries: Queries) -> list[Drawn]:
    return [
        _line(queries, "utilization_ratio", "Changes every 2 s at most. Good: busy under load.", maximum=1),
        lines(
            About(
                "GPU memory",
                f"In use and in all. {_EVERYBODY} Steps are 1 MiB. Good: flat between loads.",
                Unit.BYTES,
                empty="Triton reports no GPU",
            ),
            [
                Query(queries.gpu("memory_used_bytes"), f"in use {_GPU}"),
                Query(queries.gpu("memory_total_bytes"), f"size {_GPU}"),
            ],
        ),
        lines(
            About(
                "GPU power",
                "Drawn now, and the limit. Good: below the limit; at the limit clocks fall.",
                Unit.WATTS,
                empty="Triton reports no GPU",
            ),
            [
                Query(queries.gpu("power_watts"), f"drawn {_GPU}"),
                Query(queries.gpu("power_limit_watts"), f"limit {_GPU}"),
            ],
        ),
        _line(queries, "energy_joules_total", "In each step of the chart. Good: follows the load."),
    ]


def _line(queries: Queries, name: str, good: str, maximum: float | None = None) -> Drawn:
    row = shown(name, Level.GPU)
    about = About(
        row.title,
        f"{row.formula[0].upper()}{row.formula[1:]}. {good}",
        row.unit,
        empty="Triton reports no GPU",
        maximum=maximum,
    )
    return lines(about, [Query(queries.gpu(name), _GPU)])


def _host(queries: Queries) -> list[Drawn]:
    legend = f"{{{{{queries.parameters.instance}}}}}"
    by = queries.server_labels
    cpu = shown("cpu_ratio", Level.HOST)

    def pair(title: str, used: str, total: str, good: str) -> Drawn:
        about = About(title, good, Unit.BYTES, width=8)
        return lines(
            about,
            [
                Query(queries.row(by, queries.of(used, Level.HOST)), f"in use {legend}"),
                Query(queries.row(by, queries.of(total, Level.HOST)), f"size {legend}"),
            ],
        )

    return [
        lines(
            About(
                cpu.title,
                f"{cpu.formula[0].upper()}{cpu.formula[1:]}: not the container's share. Good: below 90 %.",
                cpu.unit,
                width=8,
                maximum=1,
            ),
            [Query(queries.row(by, queries.of("cpu_ratio", Level.HOST)), legend)],
        ),
        pair(
            "Memory", "memory_used_bytes", "memory_total_bytes", "Of the whole machine. Good: room to load."
        ),
        pair(
            "Pinned memory",
            "pinned_memory_used_bytes",
            "pinned_memory_total_bytes",
            "Triton's pool for transfers to GPUs. Good: never full; a full pool makes transfers slow.",
        ),
    ]


def _models(queries: Queries) -> Drawn:
    series = queries.models.selector("tritonscope_model_memory_bytes", (), 'kind=~"GPU.*"')
    return memory(queries, series, width=24)


def _dcgm(queries: Queries) -> list[Drawn]:
    joined = (
        "From DCGM, joined by uuid with the GPUs that the chosen servers see; where they report "
        "none, all GPUs of the "
        "cluster. The largest of a GPU's series: DCGM has one for each pod that uses it."
    )
    busy, power = shown("utilization_ratio", Level.GPU), shown("power_watts", Level.GPU)

    def one(title: str, unit: Unit | str, text: str, good: str, maximum: float | None = None) -> Drawn:
        about = About(title, f"{joined} Good: {good}", unit, "no DCGM families", width=8, maximum=maximum)
        return lines(about, [Query(text, _GPU)])

    return [
        one(f"{busy.title} (DCGM)", busy.unit, queries.dcgm(busy.name), "busy under load.", 1),
        lines(
            About(
                "GPU memory (DCGM)",
                f"{joined} Good: flat between loads.",
                Unit.BYTES,
                "no DCGM families",
                width=8,
            ),
            [
                Query(queries.dcgm("memory_used_bytes"), f"in use {_GPU}"),
                Query(queries.dcgm("memory_total_bytes"), f"size {_GPU}"),
            ],
        ),
        one(f"{power.title} (DCGM)", power.unit, queries.dcgm(power.name), "below the limit."),
        one("Temperature", CELSIUS, queries.dcgm_family("DCGM_FI_DEV_GPU_TEMP"), "below 80 degrees, steady."),
        one(
            "Clock",
            MEGAHERTZ,
            queries.dcgm_family("DCGM_FI_DEV_SM_CLOCK"),
            "high under load; falling under load: heat or power.",
        ),
        one(
            "Last XID error",
            Unit.NONE,
            queries.dcgm_family("DCGM_FI_DEV_XID_ERRORS"),
            "0. NVIDIA's XID list says what a number means.",
        ),
    ]


def _mig(queries: Queries) -> list[Drawn]:
    mig = replace(queries.servers, mig=True)
    by = "gpu_uuid, GPU_I_ID, GPU_I_PROFILE"
    legend = "{{GPU_I_PROFILE}} {{GPU_I_ID}} {{gpu_uuid}}"
    told = "A MIG GPU is split into instances; Triton reports none of them, DCGM does."

    def renamed(text: str) -> str:
        return f'max by ({by}) (label_replace({text}, "gpu_uuid", "$1", "UUID", "(.*)"))'

    used, free = mig.selector("DCGM_FI_DEV_FB_USED"), mig.selector("DCGM_FI_DEV_FB_FREE")
    return [
        lines(
            About(
                "Memory of MIG instances", f"{told} Good: flat between loads.", Unit.BYTES, "no MIG instances"
            ),
            [
                Query(renamed(f"{DCGM_MIB_BYTES!r} * {used}"), f"in use {legend}"),
                Query(renamed(f"{DCGM_MIB_BYTES!r} * ({used} + {free})"), f"size {legend}"),
            ],
        ),
        lines(
            About(
                "Activity of MIG instances",
                f"{told} Share of time in which the instance was "
                f"active; needs DCGM's "
                "profiling fields. Good: busy under load.",
                Unit.RATIO,
                "no profiling fields",
                maximum=1,
            ),
            [Query(renamed(mig.selector("DCGM_FI_PROF_GR_ENGINE_ACTIVE")), legend)],
        ),
    ]
