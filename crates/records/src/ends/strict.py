"""What Python's csv module says of all texts of up to six pieces: a bit each, 1 if it reads the text with strict=True. Writes strict.hex."""

import csv, io, itertools, pathlib

PIECES = ["a", '"', ",", "\n", "\r\n"]


def reads(text):
    try:
        list(csv.reader(io.StringIO(text, newline=""), strict=True))
    except csv.Error:
        return "0"
    return "1"


texts = ("".join(pieces) for count in range(7) for pieces in itertools.product(PIECES, repeat=count))
bits = "".join(map(reads, texts))
bits += "0" * (-len(bits) % 4)
digits = "".join(f"{int(bits[at:at + 4], 2):x}" for at in range(0, len(bits), 4))
lines = [digits[at:at + 120] for at in range(0, len(digits), 120)]
pathlib.Path(__file__).with_name("strict.hex").write_text("\n".join(lines) + "\n")
