"""Reads zip archives from strangers: bounded in every way, and one kind of error for all damage."""

from __future__ import annotations

import io
import zipfile

from pivec.errors import BadPolicyFile

MAX_MEMBERS = 20_000
MAX_BYTES = 1 << 30
# Deflate reaches about 1000 : 1 on zeros. Real weights hardly compress; text does by about 10.
MAX_RATIO = 200
SMALL = 1 << 20


class Archive:
    """The members of a zip file held in memory.

    Parameters
    ----------
    data : bytes
        The whole file.
    name : str
        What error messages call it.
    """

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        if not data.startswith(b"PK"):
            raise BadPolicyFile(f"{name} is not a zip archive.")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
            members = self._zip.infolist()
        except Exception as error:  # zipfile lets half a dozen kinds through on damaged input
            raise BadPolicyFile(
                f"{name} is a damaged or truncated zip archive ({error}): copy or save it again."
            ) from error
        # Archives in archives: of one cut short, zipfile finds the end of one inside.
        if min((member.header_offset for member in members), default=0) != 0:
            raise BadPolicyFile(f"{name} is a truncated zip archive: copy or save it again.")
        if len(members) > MAX_MEMBERS:
            raise BadPolicyFile(f"{name} holds {len(members)} members, more than {MAX_MEMBERS}.")
        self._members = {member.filename: member for member in members}
        if len(self._members) < len(members):
            raise BadPolicyFile(f"{name} holds two members of the same name.")
        total = sum(member.file_size for member in members)
        if total > MAX_BYTES:
            raise BadPolicyFile(f"{name} unpacks to {total} bytes, more than {MAX_BYTES}.")
        for member in members:
            if member.file_size > SMALL and member.file_size > MAX_RATIO * member.compress_size:
                raise BadPolicyFile(
                    f"{name}: {member.filename!r} unpacks to more than {MAX_RATIO} times its size."
                )

    def __contains__(self, member: str) -> bool:
        return member in self._members

    def names(self) -> list[str]:
        """Names of the members, in the archive's order."""
        return list(self._members)

    def read(self, member: str) -> bytes:
        """Give the content of a member, checked against its length and checksum."""
        if member not in self._members:
            raise BadPolicyFile(f"{self.name} lacks its member {member!r}.")
        info = self._members[member]
        if info.flag_bits & 0x1:
            raise BadPolicyFile(f"{self.name}: {member!r} is encrypted.")
        try:
            with self._zip.open(info) as stream:
                content = stream.read(info.file_size + 1)
        except Exception as error:  # as above: zlib.error, EOFError, NotImplementedError, ...
            raise BadPolicyFile(
                f"{self.name}: {member!r} is damaged ({error}): copy or save the file again."
            ) from error
        if len(content) != info.file_size:
            raise BadPolicyFile(
                f"{self.name}: {member!r} has {len(content)} bytes instead of {info.file_size}."
            )
        return content
