"""One process of `encode_parts`, for tests that kill it: SHARDS PARTS [pause a batch] [lease]."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from encoder_toys import Means

from visir.encoders import encode_parts

shards, parts, pause, lease = sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4])
result = encode_parts(Means(pause=pause), shards, parts, batch_size=4, lease=lease, workers=1)
print(result.files, flush=True)
