"""The tile rung: kernels block by block and steps operator by operator (docs/model.md)."""

from hwmodel.tilesim.compare import Difference, compare
from hwmodel.tilesim.single import attention_s, matmul_s, stream_s
from hwmodel.tilesim.step import TileOperator, TileStep, UnsupportedChip, time_steps

__all__ = [
    "Difference",
    "TileOperator",
    "TileStep",
    "UnsupportedChip",
    "attention_s",
    "compare",
    "matmul_s",
    "stream_s",
    "time_steps",
]
