"""Opens logs that are archives: entries one by one, each bounded, whatever sizes the archive states."""

from __future__ import annotations

import io
import zipfile
import zlib
from typing import TYPE_CHECKING, Any

from budgetroute.profiling.imports.logged import refuse

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MAGIC = b"PK\x03\x04"
MOST_ENTRIES = 200_000
ENTRY_BYTES = 64 * 1024**2
ALL_BYTES = 4 * 1024**3
"""What all entries may unpack to; they are read one after the other, so that it costs time only."""
ZSTANDARD = 93
_LISTED = b"PK\x01\x02"
_LOCAL_HEADER = 30
_AT_ONCE = 1024**2
_READABLE = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, ZSTANDARD}


class Archive:
    """An archive in memory.

    Args:
        data: its bytes.
        path: what errors call it.

    Raises:
        ProfileError: it is no archive, or has too many entries.
    """

    def __init__(self, data: bytes, path: Path) -> None:
        self._data, self._path, self._left = data, path, ALL_BYTES
        if data.count(_LISTED) > MOST_ENTRIES:
            raise refuse(path, f"more than {MOST_ENTRIES:,} entries")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, OverflowError, NotImplementedError) as err:
            raise refuse(path, f"not an archive that can be read: {err}") from err
        self._entries = {entry.filename: entry for entry in self._zip.infolist()}

    def names(self) -> Iterator[str]:
        """Yield the entries' names, in the archive's order."""
        yield from self._entries

    def read(self, name: str) -> bytes | None:
        """Return an entry's bytes, None where there is no such entry.

        Raises:
            ProfileError: it is damaged, encrypted, too large, or packed in a way that cannot be
                read here.
        """
        entry = self._entries.get(name)
        if entry is None:
            return None
        if entry.flag_bits & 1 or entry.compress_type not in _READABLE:
            raise refuse(self._path, f"entry {name!r:.80} is encrypted or packed in an unknown way")
        most = min(ENTRY_BYTES, self._left)
        try:
            data = self._unpacked(entry, most + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, ValueError, IndexError) as err:
            raise refuse(self._path, f"entry {name!r:.80} is damaged: {err}") from err
        if len(data) > most:
            raise refuse(
                self._path,
                f"entry {name!r:.80} unpacks to more than is read: {ENTRY_BYTES:,} bytes for one, "
                f"{ALL_BYTES:,} for all",
            )
        self._left -= len(data)
        return data

    def _unpacked(self, entry: zipfile.ZipInfo, most: int) -> bytes:
        if entry.compress_type != ZSTANDARD:
            with self._zip.open(entry) as file:
                return file.read(most)
        try:
            import pyarrow as pa
        except ImportError as err:
            raise refuse(
                self._path,
                "packed with Zstandard, which needs pyarrow: pip install 'budgetroute[data]'; or "
                "convert it: inspect log convert --to json",
            ) from err
        with pa.input_stream(pa.py_buffer(self._packed(entry)), compression="zstd") as stream:
            return _some(stream, most)

    def _packed(self, entry: zipfile.ZipInfo) -> memoryview:
        """Return the packed bytes; the local header repeats the name at a length of its own."""
        start = entry.header_offset
        header = self._data[start : start + _LOCAL_HEADER]
        if len(header) < _LOCAL_HEADER or header[:4] != MAGIC:
            raise zipfile.BadZipFile("no local header")
        start += _LOCAL_HEADER + int.from_bytes(header[26:28], "little")
        start += int.from_bytes(header[28:30], "little")
        return memoryview(self._data)[start : start + entry.compress_size]


def _some(stream: Any, most: int) -> bytes:  # noqa: ANN401 - pyarrow has no types
    """Return what a stream holds, at most so many bytes; one read may give less than it could."""
    parts: list[bytes] = []
    while most > 0 and (part := stream.read(min(most, _AT_ONCE))):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)
