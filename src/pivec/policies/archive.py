"""Reads zip archives from strangers: bounded in every way, and one kind of error for all damage."""

from __future__ import annotations

import io
import zipfile
from typing import BinaryIO

from pivec.errors import BadPolicyFile
from pivec.reading import Budget

MAX_MEMBERS = 20_000
CHUNK = 1 << 20


class BoundedZip:
    """A zip file, in memory or open; what is read of its ``members`` counts in the budget."""

    def __init__(self, source: bytes | bytearray | BinaryIO, budget: Budget) -> None:
        self._budget = budget
        stream = io.BytesIO(source) if isinstance(source, bytes | bytearray) else source
        if stream.read(2) != b"PK":
            raise BadPolicyFile("it is not a zip archive")
        try:
            self._zip = zipfile.ZipFile(stream)
            members = self._zip.infolist()
        except Exception as error:  # zipfile lets half a dozen kinds through on damaged input
            raise BadPolicyFile(
                f"it is a damaged or truncated zip archive ({error}): copy or save it again"
            ) from error
        # Archives in archives: of one cut short, zipfile finds the end of one inside.
        if min((member.header_offset for member in members), default=0) != 0:
            raise BadPolicyFile("it is a truncated zip archive: copy or save it again")
        if len(members) > MAX_MEMBERS:
            raise BadPolicyFile(f"it holds {len(members)} members, more than {MAX_MEMBERS}")
        self.members = {member.filename: member for member in members}
        if len(self.members) < len(members):
            raise BadPolicyFile("it holds two members of the same name")

    def read(self, member: str) -> bytearray:
        """Give the content of a member, checked against its length and checksum."""
        if member not in self.members:
            raise BadPolicyFile(f"it lacks its member {member!r}")
        info = self.members[member]
        if info.flag_bits & 0x1:
            raise BadPolicyFile(f"its member {member!r} is encrypted")
        # Of others, zipfile unpacks whole blocks whatever length the archive declares.
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise BadPolicyFile(
                f"its member {member!r} is packed by a method that is not supported: save the "
                "file without compression"
            )
        content = bytearray()
        try:
            with self._zip.open(info) as stream:
                while chunk := stream.read(CHUNK):
                    self._budget.spend(len(chunk))
                    content += chunk
        except BadPolicyFile:
            raise
        except Exception as error:  # as above: zlib.error, EOFError, NotImplementedError, ...
            raise BadPolicyFile(
                f"its member {member!r} is damaged ({error}): copy or save the file again"
            ) from error
        if len(content) != info.file_size:
            raise BadPolicyFile(
                f"its member {member!r} has {len(content)} bytes instead of {info.file_size}"
            )
        return content
