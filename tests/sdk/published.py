"""Checkpoints by the words of sdk/python/tide/checkpoint/format.py alone: nothing of the SDK's reader is used."""

import json
import os
import struct
import zlib


def seal(record):
    body = json.dumps(record, separators=(",", ":")).encode()[:-1]
    return body + b',"crc32":"%08x"}\n' % zlib.crc32(body)


def read_manifest(path):
    with open(os.path.join(path, "MANIFEST.json"), "rb") as source:
        manifest = json.load(source)
    manifest.pop("crc32")
    return manifest


def write_manifest(path, manifest):
    with open(os.path.join(path, "MANIFEST.json"), "wb") as out:
        out.write(seal(manifest))


def read_sections(path):
    """[(text, rows)] of the ranks; rows: [[tensor, offset, [[first, last + 1], …]]]."""
    manifest = read_manifest(path)
    dims = [len(item["shape"]) for item in manifest["boxes"].values()]
    found = []
    with open(os.path.join(path, "RANKS.bin"), "rb") as source:
        for record in manifest["sections"]:
            text, table = source.read(record["text"]), source.read(record["table"])
            assert f"{zlib.crc32(text + table):08x}" == record["crc32"]
            words, rows = list(struct.unpack(f"<{len(table) // 8}q", table)), []
            while words:
                count = 2 + 2 * dims[words[0]]
                rows.append([words[0], words[1], [list(side) for side in zip(words[2:count:2], words[3:count:2])]])
                del words[:count]
            found.append((json.loads(text), rows))
        assert not source.read()
    return found


def write_sections(path, sections):
    """Puts other sections in their place, sealed."""
    manifest, content, records = read_manifest(path), b"", []
    for text, rows in sections:
        text = json.dumps(text, separators=(",", ":")).encode()
        words = [word for tensor, offset, box in rows for word in (tensor, offset, *(border for side in box for border in side))]
        table = struct.pack(f"<{len(words)}q", *words)
        records.append({"text": len(text), "table": len(table), "crc32": f"{zlib.crc32(text + table):08x}"})
        content += text + table
    with open(os.path.join(path, "RANKS.bin"), "wb") as out:
        out.write(content)
    write_manifest(path, {**manifest, "sections": records})


def boxed_parts(path):
    """{tensor: [{file, offset, box}]}, of copies of a box that of the lowest rank, sorted by box."""
    names = list(read_manifest(path)["boxes"])
    found = {name: {} for name in names}
    for text, rows in read_sections(path):
        for tensor, offset, box in rows:
            found[names[tensor]].setdefault(json.dumps(box), {"file": text["file"], "offset": offset, "box": box})
    return {name: sorted(parts.values(), key=lambda part: part["box"]) for name, parts in found.items()}


def volume(box):
    count = 1
    for first, last in box:
        count *= last - first
    return count


ITEM_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "C64": 8, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U64": 8, "U32": 4,
              "U16": 2, "U8": 1, "BOOL": 1}


def make_version_1(path):
    """Rewrites a checkpoint as `tide-checkpoint/1`, which an earlier SDK wrote."""
    manifest, tensors = read_manifest(path), {}
    boxed, sections = manifest.pop("boxes"), read_sections(path)
    del manifest["sections"]
    for name, parts in boxed_parts(path).items():
        item = ITEM_BYTES[boxed[name]["dtype"]]
        tensors[name] = {**boxed[name], "parts": [
            {"file": part["file"], "offset": part["offset"], "length": volume(part["box"]) * item, "box": part["box"]} for part in parts]}
    for text, _ in sections:
        for name, record in text["tensors"].items():
            count = volume([(0, size) for size in record["shape"]])
            tensors[name] = {"dtype": record["dtype"], "shape": record["shape"], "parts": [
                {"file": text["file"], "offset": record["offset"], "length": count * ITEM_BYTES[record["dtype"]], "range": [0, count]}]}
    manifest.update(format="tide-checkpoint/1", tensors={**manifest["tensors"], **tensors}, ranks=[text["local"] for text, _ in sections])
    write_manifest(path, manifest)
    os.unlink(os.path.join(path, "RANKS.bin"))
