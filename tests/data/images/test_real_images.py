"""MNIST and Flickr8k, where they are."""

import hashlib
from pathlib import Path

import numpy as np
import pytest

from regard.data.config import DataConfig
from regard.data.files.labelled import label_set
from regard.data.images.files import captioned_images, labelled_images
from regard.data.images.pixels import PixelForm
from regard.data.images.store import store

DATA = Path(__file__).parents[3].parent / "shared" / "data"
MNIST, FLICKR = DATA / "mnist", DATA / "flickr8k-128"


@pytest.mark.skipif(not MNIST.is_dir(), reason="no shared data")
def test_mnist() -> None:
    files = ("t10k-images.idx3-ubyte.xz", "t10k-labels.idx1-ubyte.xz")
    images = labelled_images(DataConfig(root=str(MNIST), train=files)).train
    assert len(images) == 10_000 and label_set(images) == tuple("0123456789")
    assert images.labels[:5] == ["7", "2", "1", "0", "4"]
    pixels = store(images.images, PixelForm(channels=1), None)
    header = bytes([0, 0, 8, 3]) + b"".join(size.to_bytes(4, "big") for size in (10_000, 28, 28))
    assert hashlib.md5(header + pixels.pixels.tobytes()).hexdigest() == "2646ac647ad5339dbf082846283269ea"
    assert (pixels.sizes == 28).all()


@pytest.mark.slow  # four seconds to unpack
@pytest.mark.skipif(not FLICKR.is_dir(), reason="no shared data")
def test_flickr8k(tmp_path: Path) -> None:
    shared = ("Flickr8k.token.txt.xz", "images.tar.xz")
    train, valid = ((*shared, f"Flickr_8k.{name}Images.txt.xz") for name in ("train", "dev"))
    parts = captioned_images(DataConfig(root=str(FLICKR), train=train, valid=valid, test=shared))
    assert parts.valid is not None and parts.test is not None
    assert [len(part) for part in (parts.train, parts.valid, parts.test)] == [6000, 1000, 8091]  # 91 are in no part
    assert {len(captions) for captions in parts.train.captions} == {5}
    assert parts.train.notes.counts == {}
    assert parts.test.notes.counts == {"caption of an image that is not there skipped": 5}
    pixels = store(parts.valid.images.take(np.arange(200)), PixelForm(), tmp_path)
    assert pixels.sizes.max() == 128 and len(np.unique(pixels.sizes, axis=0)) > 10
