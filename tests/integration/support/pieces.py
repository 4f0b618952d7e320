# SPDX-License-Identifier: Apache-2.0
"""Ways to cut bytes for sending."""
import random


def at_every_split(data):
    return [(data[:at], data[at:]) for at in range(1, len(data))]


def in_pieces(data, size):
    return [data[at:at + size] for at in range(0, len(data), size)]


def in_random_pieces(data, seed):
    dice, pieces = random.Random(seed), []
    while data:
        size = dice.choice([1, 2, 3, 7, 31, 200, 1500])
        pieces.append(data[:size])
        data = data[size:]
    return pieces
