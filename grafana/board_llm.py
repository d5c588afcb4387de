"""LLM serving: engines that queue and batch inside themselves, by their own families."""

from __future__ import annotations

from collections.abc import Iterable

from grafana.board import Board, Section
from grafana.grafana_units import TOKENS_PER_SECOND
from grafana.model_panels import model_legend, model_lines
from grafana.panels import About, Drawn, Query, lines
from grafana.parameters import Parameters
from grafana.queries import NOT_NAN, Queries
from grafana.variables import LLM, TRITON, app, datasource, exporter_job, models, servers, top
from telemetry.units import Unit

_NO_VLLM, _NO_TRT = "no vLLM here", "no TensorRT-LLM here"
QUANTILES = (0.5, 0.9, 0.99)


def board(parameters: Parameters) -> Board:
    """The board."""
    queries = Queries(parameters)
    sections = (
        Section("vLLM", _vllm(queries)),
        Section("TensorRT-LLM", _trt_llm(queries)),
        Section("What Triton itself can tell", _triton(queries)),
        Section(
            "Time to the first response",
            [_first_response(queries)],
            "--metrics-config histogram_latencies=true",
        ),
        Section("Which models queue by themselves", [_inside(queries)], "Tritonscope's exporter"),
    )
    variables = [
        datasource(),
        *servers(parameters, (*TRITON, *LLM)),
        *models(queries),
        exporter_job(queries),
        top(),
        app(parameters),
    ]
    return Board(
        "tritonscope-llm",
        "Triton LLM serving",
        "Do the language models keep up?",
        variables,
        sections,
        page="model",
        parameters=parameters,
    )


def text() -> str:
    """The committed file."""
    return board(Parameters()).text()


class _Engine:
    """Panels of one engine's families, by model; `model_name` is what vLLM without Triton calls it."""

    def __init__(self, queries: Queries, empty: str) -> None:
        names = queries.parameters
        self.queries, self.empty = queries, empty
        self._by = (names.model, "model_name", names.instance)
        self._name = f"{{{{{names.model}}}}}{{{{model_name}}}} {{{{{names.instance}}}}}"

    def gauge(self, family: str, **where: str) -> str:
        """The gauge by model and server."""
        return self._sum(self.queries.models.selector(family, tuple(where.items())))

    def rate(self, series: str) -> str:
        """Increase per second by model and server."""
        return self._sum(f"rate({self.queries.models.over_window(series)})")

    def quantile(self, share: float, families: Iterable[str]) -> str:
        """A quantile of a histogram; of the first of the families that there is."""
        by = ", ".join((*self._by, "le"))
        texts = (
            f"histogram_quantile({share:g}, sum by ({by}) "
            f"(rate({self.queries.models.over_window(family + '_bucket')})))"
            for family in families
        )
        return f"({' or '.join(texts)}) {NOT_NAN}"

    def panel(self, title: str, text: str, unit: Unit | str, queries: dict[str, str], **more: float) -> Drawn:
        """A chart; the keys are words before the model's name."""
        named = [Query(expr, f"{word} {self._name}".strip()) for word, expr in queries.items()]
        return lines(About(title, text, unit, self.empty, width=8, maximum=more.get("maximum")), named)

    def quantiles(self, title: str, text: str, *families: str) -> Drawn:
        """A chart of quantiles in seconds."""
        found = {f"p{100 * share:g}": self.quantile(share, families) for share in QUANTILES}
        return self.panel(title, text, Unit.SECONDS, found)

    def _sum(self, text: str) -> str:
        return f"sum by ({', '.join(self._by)}) ({text})"


def _vllm(queries: Queries) -> list[Drawn]:
    vllm = _Engine(queries, _NO_VLLM)
    cache = f"{vllm.gauge('vllm:kv_cache_usage_perc')} or {vllm.gauge('vllm:gpu_cache_usage_perc')}"
    return [
        vllm.panel(
            "Requests running and waiting",
            "Inside vLLM; Triton's own queue shows nothing. Good: waiting near 0.",
            Unit.REQUESTS,
            {
                "running": vllm.gauge("vllm:num_requests_running"),
                "waiting": vllm.gauge("vllm:num_requests_waiting"),
            },
        ),
        vllm.panel(
            "KV cache in use",
            "Good: below 90 %. Full: requests wait or are set back.",
            Unit.RATIO,
            {"": cache},
            maximum=1,
        ),
        vllm.panel(
            "Requests set back",
            "Preempted for lack of KV cache, and computed again. Good: 0.",
            Unit.PER_SECOND,
            {"": vllm.rate("vllm:num_preemptions_total")},
        ),
        vllm.quantiles(
            "Time to the first token",
            "What a person waits for. Good: below 1 s, flat.",
            "vllm:time_to_first_token_seconds",
        ),
        vllm.quantiles(
            "Time between tokens",
            "Good: below 50 ms: faster than reading.",
            "vllm:inter_token_latency_seconds",
            "vllm:time_per_output_token_seconds",
        ),
        vllm.quantiles(
            "Whole requests",
            "Grows with the length of answers. Good: flat for the same use.",
            "vllm:e2e_request_latency_seconds",
        ),
        vllm.quantiles(
            "Waiting inside vLLM",
            "The queue that Triton does not see. Good: near 0.",
            "vllm:request_queue_time_seconds",
        ),
        vllm.panel(
            "Tokens",
            "Read (prompts) and generated. Good: follows the demand; generation "
            "that falls while "
            "requests wait: the engine is slower than it was.",
            TOKENS_PER_SECOND,
            {
                "read": vllm.rate("vllm:prompt_tokens_total"),
                "generated": vllm.rate("vllm:generation_tokens_total"),
            },
        ),
    ]


def _trt_llm(queries: Queries) -> list[Drawn]:
    trt = _Engine(queries, _NO_TRT)
    requests, blocks = "nv_trt_llm_request_metrics", "nv_trt_llm_kv_cache_block_metrics"
    used, largest = (trt.gauge(blocks, kv_cache_block_type=kind) for kind in ("used", "max"))
    return [
        trt.panel(
            "Requests",
            "Active: all that the engine holds; scheduled: in the batch of this step; waiting: "
            "newer releases only. "
            "Good: active below max.",
            Unit.REQUESTS,
            {
                kind: trt.gauge(requests, request_type=kind)
                for kind in ("active", "scheduled", "waiting", "max")
            },
        ),
        trt.panel(
            "KV cache in use",
            "Blocks used / blocks there are. Good: below 90 %.",
            Unit.RATIO,
            {"": f"{used} / ({largest} > 0)"},
            maximum=1,
        ),
        trt.panel(
            "Requests being generated",
            "In the batch in flight. Good: near the engine's largest batch under load.",
            Unit.REQUESTS,
            {
                "": trt.gauge(
                    "nv_trt_llm_inflight_batcher_metrics",
                    inflight_batcher_specific_metric="generation_requests",
                )
            },
        ),
        trt.panel(
            "Memory of the runtime",
            "Allocated at start, so flat. Good: unchanged.",
            Unit.BYTES,
            {
                kind: trt.gauge("nv_trt_llm_runtime_memory_metrics", memory_type=kind)
                for kind in ("gpu", "pinned")
            },
        ),
        trt.panel(
            "Tokens",
            "Read (prompts) and generated, of finished requests. Good: follows the demand.",
            TOKENS_PER_SECOND,
            {
                "read": trt.rate("nv_llm_input_token_len_sum"),
                "generated": trt.rate("nv_llm_output_token_len_sum"),
            },
        ),
        trt.panel(
            "Tokens of an answer",
            "Mean of finished requests. Good: what the use needs.",
            Unit.COUNT,
            {
                "": f"{trt.rate('nv_llm_output_token_len_sum')} / "
                f"({trt.rate('nv_llm_output_token_len_count')} > 0)"
            },
        ),
    ]


def _triton(queries: Queries) -> list[Drawn]:
    return [
        model_lines(
            queries,
            "requests_per_second",
            "For an engine that queues by itself these are "
            "requests handed to it, "
            "not finished ones. Good: follows the demand.",
        ),
        model_lines(queries, "failures_per_second", "Good: nothing here."),
    ]


def _first_response(queries: Queries) -> Drawn:
    names = queries.parameters
    by = f"{names.model}, {names.version}, {names.instance}, le"
    series = queries.models.over_window("nv_inference_first_response_histogram_ms_bucket")
    found = [
        Query(
            f"histogram_quantile({share:g}, sum by ({by}) (rate({series}))) {NOT_NAN}",
            f"p{100 * share:g} {model_legend(queries)}",
        )
        for share in QUANTILES
    ]
    about = About(
        "Time to the first response",
        "Triton's own histogram, as fine as its buckets (0.1, 0.5, 2, 5 s by default). Good: flat.",
        Unit.MS,
        empty="no histogram: Triton 24.11 or newer with histogram_latencies=true",
        width=24,
    )
    return lines(about, found)


def _inside(queries: Queries) -> Drawn:
    names = queries.parameters
    series = queries.models.selector("tritonscope_model_queues_itself")
    about = About(
        "Models that queue by themselves",
        "Triton's queue, batch and latency figures say nothing about them: look at the engine's "
        "families above. Good: only the language models.",
        Unit.COUNT,
        empty="no such model",
        width=24,
    )
    return lines(
        about,
        [
            Query(
                f"max by ({names.model}, {names.instance}) ({series})",
                f"{{{{{names.model}}}}} {{{{{names.instance}}}}}",
            )
        ],
    )
