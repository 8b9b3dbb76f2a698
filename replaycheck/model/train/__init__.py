"""How the shipped model is made: `prepare_corpus` finds and cleans text, `train` makes the model directory.

>>> from replaycheck.model.train import Places, TrainSettings, prepare_corpus, train  # doctest: +SKIP
>>> prepare_corpus(Path("corpus"), Places(packages=Path("downloads")), report=print)  # doctest: +SKIP
>>> train(TrainSettings(corpus=Path("corpus"), out=Path("my-model")), report=print)  # doctest: +SKIP
"""

from replaycheck.model.train.corpus import Places, Section, prepare_corpus
from replaycheck.model.train.evaluate import HeldOut
from replaycheck.model.train.loop import TrainResult, train
from replaycheck.model.train.settings import Stage, TrainSettings

__all__ = [
    "HeldOut",
    "Places",
    "Section",
    "Stage",
    "TrainResult",
    "TrainSettings",
    "prepare_corpus",
    "train",
]
