"""A gated recurrent unit on the CPU, nearly twice as fast as `torch.nn.GRU` there, over texts of any lengths.

`torch.nn.GRU` on a CPU projects every word of a batch, though a third of them repeat others, runs each step's
activations one by one, and adds to the gradient of the recurrent weights at every step. Here each distinct word is
projected once, a step is one matrix product and four passes, and the gradient of the weights is one product at the end.
The parameters, and on a GPU the computation, are `torch.nn.GRU`'s own; so are the numbers, to rounding.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn


class Packing:
    """Sequences of (n,) `lengths`, at least 1, laid out step after step; within a step, the longest sequence first."""

    # So the sequences that still run are always the first ones, and no step computes padding.

    def __init__(self, lengths: Tensor) -> None:
        order = torch.argsort(lengths, descending=True, stable=True)
        falling = lengths[order]
        self.count, self.steps = len(lengths), int(falling[0])
        running = torch.arange(self.steps)[:, None] < falling  # (L, n)
        sizes = running.sum(1)
        self.sizes: list[int] = sizes.tolist()
        starts = sizes.cumsum(0) - sizes
        self.times, ranks = running.nonzero(as_tuple=True)
        self.rows = order[ranks]
        self.mirror = starts[falling[ranks] - 1 - self.times] + ranks
        self.ends = torch.empty_like(order)
        self.ends[order] = starts[falling - 1] + torch.arange(self.count)

    def padded(self, states: Tensor) -> Tensor:
        """(T, d) states to (n, L, d), zero behind each sequence's end."""
        padded = states.new_zeros(self.count, self.steps, states.shape[1])
        return padded.index_put((self.rows, self.times), states)


def run(gru: nn.GRU, inputs: Tensor, rows: Tensor, packing: Packing) -> tuple[Tensor, Tensor]:
    """What `gru` (batch first) computes: the states (T, directions · hidden), and each direction's last (n, the same).

    `inputs` are (m, words) distinct inputs, of which `rows` (T,) says which one stands at each place of the layout.
    A direction's last state is the one at its own end: the backward one's is at the first word, after all of them.
    """
    outputs: list[Tensor] = []
    last: list[Tensor] = []
    for layer in range(gru.num_layers):
        if layer:
            inputs, rows = torch.cat(outputs, 1), torch.arange(len(packing.rows))
        outputs, last = [], []
        for suffix in ("", "_reverse")[: 1 + gru.bidirectional]:
            projected = nn.functional.linear(
                inputs, getattr(gru, f"weight_ih_l{layer}{suffix}"), getattr(gru, f"bias_ih_l{layer}{suffix}")
            )
            gates = projected.index_select(0, rows[packing.mirror] if suffix else rows)
            recurrent = getattr(gru, f"weight_hh_l{layer}{suffix}"), getattr(gru, f"bias_hh_l{layer}{suffix}")
            states = _Recurrence.apply(gates, *recurrent, packing.sizes)
            outputs.append(states[packing.mirror] if suffix else states)
            last.append(states[packing.ends])
    return torch.cat(outputs, 1), torch.cat(last, 1)


class _Recurrence(torch.autograd.Function):
    """One direction: (T, 3h) projected inputs to (T, h) states, beginning from zero."""

    # With x the projected input and y = W h + b of the state before, each in thirds for reset, update and new: r =
    # σ(x_r + y_r), z = σ(x_z + y_z), n = tanh(x_n + r y_n), h' = n + z (h - n); the variant of `torch.nn.GRU` (and of
    # cuDNN), where the reset gate multiplies y_n, not the state before the product as in Cho et al. 2014.

    @staticmethod
    def forward(ctx: Any, gates: Tensor, weight: Tensor, bias: Tensor, sizes: list[int]) -> Tensor:
        width = weight.shape[1]
        states, opened = gates.new_empty(len(gates), width), gates.new_empty(len(gates), 2 * width)
        new, fed = torch.empty_like(states), torch.empty_like(states)  # n and y_n
        state, start = gates.new_zeros(sizes[0], width), 0
        for size in sizes:
            here = slice(start, start := start + size)
            state = state[:size]
            product = torch.addmm(bias, state, weight.t())
            r_z = torch.add(gates[here, : 2 * width], product[:, : 2 * width], out=opened[here]).sigmoid_()
            fed[here] = product[:, 2 * width :]
            n = torch.addcmul(gates[here, 2 * width :], r_z[:, :width], fed[here], out=new[here]).tanh_()
            state = torch.lerp(n, state, r_z[:, width:], out=states[here])
        ctx.save_for_backward(weight, states, opened, new, fed)
        ctx.sizes = sizes
        return states

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, upstream: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        weight, states, opened, new, fed = ctx.saved_tensors
        sizes: list[int] = ctx.sizes
        width = weight.shape[1]
        slope = states.new_empty(len(states), 3 * width)  # of the loss, by r, z and n before their activations
        slope_fed = torch.empty_like(states)  # by y_n
        before = torch.zeros_like(states)  # the state that each step began from
        flowing = states.new_zeros(sizes[0], width)
        product = states.new_empty(sizes[0], 3 * width)
        stop = len(states)
        for step in reversed(range(len(sizes))):
            size = sizes[step]
            here = slice(stop - size, stop)
            stop -= size
            if step:
                begin = stop - sizes[step - 1]
                before[here] = states[begin : begin + size]
            r, z = opened[here, :width], opened[here, width:]
            d_state = flowing[:size].add_(upstream[here])  # those that end here begin from zero
            d_n = torch.addcmul(d_state, d_state, z, value=-1) * (1 - new[here].square())
            slope[here, 2 * width :] = d_n
            torch.mul(d_n * fed[here], r * (1 - r), out=slope[here, :width])
            torch.mul(d_state * (before[here] - new[here]), z * (1 - z), out=slope[here, width : 2 * width])
            torch.mul(d_n, r, out=slope_fed[here])
            if step:
                product[:size, : 2 * width] = slope[here, : 2 * width]
                product[:size, 2 * width :] = slope_fed[here]
                d_state.mul_(z).addmm_(product[:size], weight)
        of_weight = torch.empty_like(weight)
        torch.mm(slope[:, : 2 * width].t(), before, out=of_weight[: 2 * width])
        torch.mm(slope_fed.t(), before, out=of_weight[2 * width :])
        of_bias = torch.cat([slope[:, : 2 * width].sum(0), slope_fed.sum(0)])
        return slope, of_weight, of_bias, None
