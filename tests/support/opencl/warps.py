"""Replaces NVIDIA's warp instructions in kernel texts by exchanges through local memory."""

import re

from support.opencl.adding import without_ptx

from neurald.drivers.opencl.platform.device_facts import DeviceFacts, DeviceKind
from neurald.drivers.opencl.platform.retargeting import HIDDEN
from neurald.hal.records import replace

#: Local memory after that of the kernels: six words of each work-item.
_AT, _BYTES = 48 * 1024, 256 * 6 * 4

#: Multiplies matrices of 16 × 32 and 32 × 8 bytes, whose parts a warp's work-items have at `all`.
_MULTIPLY = """\
static inline uint warp_left(const __local uint *all, const int row, const int word) {
  return all[(row % 8 * 4 + word % 4) * 6 + row / 8 + word / 4 * 2];
}
static inline uint warp_right(const __local uint *all, const int column, const int word) {
  return all[(column * 4 + word % 4) * 6 + 4 + word / 4];
}
static inline float warp_products_f16(const uint left, const uint right) {
  const uint first[1] = {left}, second[1] = {right};
  const float2 a = vload_half2(0, (const half *)first), b = vload_half2(0, (const half *)second);
  return a.x * b.x + a.y * b.y;
}
static inline float warp_products_tf32(const uint left, const uint right) {
  return as_float(left) * as_float(right);
}
static inline int warp_products_s8(const uint left, const uint right) {
  const int4 a = convert_int4(as_char4(left)), b = convert_int4(as_char4(right));
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
static inline int warp_products_u8(const uint left, const uint right) {
  const int4 a = convert_int4(as_uchar4(left)), b = convert_int4(as_char4(right));
  return a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
}
#define WARP_MULTIPLY(products, sums, left, low, high) { \\
    __local uint *all = (__local uint *)(scratch + AT) + lid / 32 * (32 * 6), *own = all + lid % 32 * 6; \\
    const uint4 given = left; \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    own[0] = given.x; own[1] = given.y; own[2] = given.z; own[3] = given.w; own[4] = low; own[5] = high; \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    for (int z = 0; z < 4; ++z) \\
      for (int word = 0; word < 8; ++word) \\
        sums[z] += products(warp_left(all, lid % 32 / 4 + z / 2 * 8, word), \\
                            warp_right(all, lid % 4 * 2 + z % 2, word)); \\
  }
static inline uint warp_bytes(const uint first, const uint second, const uint which) {
  const ulong all = first | (ulong)second << 32;
  uint found = 0;
  for (int i = 0; i < 4; ++i) found |= (uint)(all >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
  return found;
}
#define WARP_EXCHANGE(words) __local uint *all = (__local uint *)(scratch + AT) + lid / 32 * 32; \\
    barrier(CLK_LOCAL_MEM_FENCE); all[lid % 32] = words; barrier(CLK_LOCAL_MEM_FENCE);
#define WARP_READ(found, from) { \\
    WARP_EXCHANGE((uint)((__local const uchar *)(from) - scratch)) \\
    uint read[4]; \\
    for (int z = 0; z < 4; ++z) \\
      read[z] = *(__local const uint *)(scratch + all[z * 8 + lid % 32 / 4] + lid % 4 * 4); \\
    *(found) = (uint4)(read[0], read[1], read[2], read[3]); \\
  }
#define WARP_READ_TURNED(found, from) { \\
    WARP_EXCHANGE((uint)((__local const uchar *)(from) - scratch)) \\
    uint read[4]; \\
    for (int z = 0; z < 4; ++z) { \\
      const __local uchar *low = scratch + all[z * 8 + lid % 4 * 2], *high = scratch + all[z * 8 + lid % 4 * 2 + 1]; \\
      read[z] = ((__local const ushort *)low)[lid % 32 / 4] | (uint)((__local const ushort *)high)[lid % 32 / 4] << 16; \\
    } \\
    *(found) = (uint4)(read[0], read[1], read[2], read[3]); \\
  }
#define WARP_OTHER(found, value, distance) { \\
    WARP_EXCHANGE(as_uint(value)) \\
    *(found) = as_float(all[lid % 32 ^ (distance)]); \\
  }
static inline uint warp_pair(const float low, const float high) {
  ushort bits[2];
  vstore_half_rte(low, 0, (half *)bits);
  vstore_half_rte(high, 1, (half *)bits);
  return bits[0] | (uint)bits[1] << 16;
}
""".replace("AT)", f"{_AT})")
#: A multiplying function with the type of its left matrix, as one statement.
_MULTIPLYING = re.compile(
    r"static inline void (\w+)_multiply\([^{]*\{\n  asm volatile\(\"mma\.sync\.aligned\.\w+\.row\.col\.\w+\.(\w+)\..*?;\n\}\n",
    re.DOTALL,
)
_BYTES_OF = re.compile(r"static inline uint (\w+)_bytes\([^{]*\{\n.*?\n\}\n", re.DOTALL)
_ASKED = re.compile(r"asm volatile\(\"ld\.global\.nc\.v4\.u32 .*?;\"\n.*?\);\n", re.DOTALL)
_REST = re.compile(r'asm\("cvt\.rna\.tf32\.f32 %0, %1;" : "=r"\(rest\) : "f"\((.*?)\)\);\n')
_COPY = re.compile(
    r'asm volatile\("cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], (\d+);" :: "r"\(\(uint\)\(ulong\)to\), "l"\(\(ulong\)from\) : "memory"\);'
)
_COPY_OR_ZERO = re.compile(
    r'asm volatile\("cp\.async\.c[ag]\.shared\.global \[%0\], \[%1\], 16, %2;" :: "r"\(\(uint\)\(ulong\)to\), "l"\(\(ulong\)from\), "r"\(bytes\) : "memory"\);'
)
_COPIED_OR_ZERO = (
    "for (int i = 0; i < 8; ++i) ((__local ushort *)to)[i] = bytes ? ((__global const ushort *)from)[i] : 0;"
)
#: Function that multiplies a step from local memory, with the instruction's columns and left type.
_WARPGROUP_MULTIPLYING = re.compile(
    r"static inline void (\w+)_multiply\((\w+) \*sums, __local const uchar \*left, __local const uchar \*right\) \{\n"
    r"  asm volatile\((?P<lines>[^:]*?m64n(\d+)k\d+\.\w+\.(\w+)\..*?)\n               : .*?\);\n\}\n",
    re.DOTALL,
)
_WARPGROUP_MULTIPLY = """\
static inline void NAME_multiply(KIND *sums, __local const uchar *left, __local const uchar *right) {
  const int lid = get_local_id(0) % 128;
  for (int j = 0; j < COLUMNS / 2; ++j) {
    const int row = lid / 32 * 16 + lid % 32 / 4 + j % 4 / 2 * 8, column = j / 4 * 8 + lid % 4 * 2 + j % 2;
    for (int word = 0; word < BYTES / 4; ++word)
      sums[j] += warp_products_TYPE(*(const __local uint *)(left + NAME_place(row, word / 4) + word % 4 * 4),
                                    *(const __local uint *)(right + NAME_place(column, word / 4) + word % 4 * 4));
  }
}
"""
#: Function with the whole loop over steps.
_WARPGROUP_RUNNING = re.compile(
    r"static inline void (\w+)_run\((\w+) \(\*sums\)\[(\d+)\], .*?\) \{\n  asm volatile\((?P<lines>.*?)\n               : .*?\);\n\}\n",
    re.DOTALL,
)
_WARPGROUP_RUN = """\
static inline void NAME_run(KIND (*sums)[COUNT], const ulong *left, const int *sizes, __local uchar *scratch,
    __local uchar *to, __local uchar *rows, __local ulong *arrived, const int steps, const int row_bytes,
    const ulong right, const ulong pitch, const int blocks) {
  for (int step = 0; step < steps; ++step) {
    __local uchar *at = scratch + step % STAGES * STEP_BYTES;
    barrier(CLK_LOCAL_MEM_FENCE);
    for (int i = 0; i < BLOCKS; ++i)
      NAME_multiply(sums[i], at + (rows - scratch) + i * 8192, at + LEFT_BYTES);
    barrier(CLK_LOCAL_MEM_FENCE);
    if (step + AHEAD >= steps) continue;
    __local uchar *next = scratch + (step + AHEAD) % STAGES * STEP_BYTES;
    for (int i = 0; i < COPIES; ++i)
      for (int z = 0; z < 16; ++z)
        next[to - scratch + i * PITCH + z] =
          sizes[i] && (step + AHEAD) * 128 < row_bytes ? ((__global const uchar *)left[i])[step * 128 + z] : 0;
    for (int i = 0; i < blocks; ++i)
      for (int z = 0; z < 8192; ++z)
        next[LEFT_BYTES + i * 8192 + z] = ((__global const uchar *)right)[i * pitch + step * 8192 + z];
  }
}
"""
_FETCH = re.compile(r"static inline void (\w+)_(fetch|expect|await)\([^{]*\{\n.*?\n\}\n", re.DOTALL)
_FETCHING = {
    "fetch": "#define {}_fetch(to, from, arrived) for (int z = 0; z < 8192; ++z) "
    "(to)[z] = ((__global const uchar *)(from))[z];\n",
    "expect": "#define {}_expect(arrived, bytes)\n",
    "await": "#define {}_await(arrived, phase)\n",
}
_WARP_BARRIER = 'asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");'
#: Functions that take addresses in local memory, which here count from its beginning.
_COPY_BY_ADDRESS = re.compile(
    r"static inline void (\w+)_copy\(const uint to, const ulong from, const int bytes\) \{\n.*?\n\}\n",
    re.DOTALL,
)
_READ_BY_ADDRESS = re.compile(r"static inline uint4 (\w+)_read\(const uint at\) \{\n.*?\n\}\n", re.DOTALL)
_READ_CALL = re.compile(r"(\w+(?:\[[^]]*\])+) = \w+_read\((.*)\);")
#: Functions of other instructions, with their names: `..._read`, `..._read_turned`, `..._other`.
_WARP_FUNCTION = re.compile(
    r"static inline void (\w+)_(read|read_turned|other)\((?:uint4|float) \*found, [^{]*\{\n  asm volatile.*?\n\}\n",
    re.DOTALL,
)
_PAIR = re.compile(r"asm\(\"cvt\.rn\.f16x2\.f32 .*?;\n", re.DOTALL)
_COUNT = re.compile(
    r'asm volatile\("atom\.acq_rel\.gpu\.global\.add\.u32 %0, \[%1\], 1;" : "=r"\(others\) : "l"\(\(ulong\)count\) : "memory"\);'
)


def _as_macro(found: "re.Match[str]") -> str:
    parameters = "found, value, distance" if found[2] == "other" else "found, from"
    return f"#define {found[1]}_{found[2]}({parameters}) WARP_{found[2].upper()}({parameters})\n"


def _warpgroup_function(found: "re.Match[str]") -> str:
    names = {
        "NAME": found[1],
        "KIND": found[2],
        "COLUMNS": found[4],
        "BYTES": str(32 * found["lines"].count("mma_async")),
        "TYPE": found[5],
    }
    return re.sub("|".join(names), lambda name: names[name[0]], _WARPGROUP_MULTIPLY)


def _warpgroup_loop(found: "re.Match[str]") -> str:
    lines = found["lines"]

    def number(pattern: str) -> int:
        return int(re.findall(pattern, lines)[-1])

    multiply = re.search(r"m64n(\d+)k\d+\.\w+\.(\w+)\.", lines)
    assert multiply
    copies = re.findall(r"cp\.async\.cg\.shared\.global \[to\+(\d+)\]", lines)
    names: dict[str, object] = {
        "NAME": found[1],
        "KIND": found[2],
        "COUNT": found[3],
        "COLUMNS": multiply[1],
        "TYPE": multiply[2],
        "STAGES": number(r"setp\.ge\.u32 p, next, (\d+);"),
        "STEP_BYTES": number(r"mul\.lo\.u32 at, stage, (\d+);"),
        "LEFT_BYTES": number(r"add\.u32 size, rows, (\d+);"),
        "AHEAD": number(r"add\.u32 next, step, (\d+);"),
        "BLOCKS": lines.count("mma_async") // 4,
        "COPIES": len(copies),
        "PITCH": int((copies * 2)[1]),
        "BYTES": 128,
    }
    return re.sub(
        rf"({'|'.join(names)})(?=[^A-Z]|$)",
        lambda name: str(names[name[0]]),
        _WARPGROUP_MULTIPLY + _WARPGROUP_RUN,
    )


def without_warpgroups(text: str) -> str:
    """Returns a text without PTX whose only warp instructions multiply steps in local memory."""
    text, single = _WARPGROUP_MULTIPLYING.subn(_warpgroup_function, text)
    text, whole = _WARPGROUP_RUNNING.subn(_warpgroup_loop, text)
    assert single + whole == 1
    text = _FETCH.sub(lambda found: _FETCHING[found[2]].format(found[1]), text)
    text = _COPY_OR_ZERO.sub(_COPIED_OR_ZERO, text).replace(_WARP_BARRIER, "barrier(CLK_LOCAL_MEM_FENCE);")
    text = re.sub(r"(neurald_local_(\d+))\[\d+\]", r"\1[\2]", text)
    text = text.replace("#pragma unroll\n", "#pragma unroll 1\n").replace(HIDDEN, "")
    return _MULTIPLY + without_ptx(text)


#: Element of local memory at an address before chunks are swizzled.
_SWIZZLED = "#define SWIZZLED(base, at) ((base) + ((at) ^ (((at) >> 7 & 7) << 4)))\n"
_INSTRUCTION = re.compile(r"m64n(\d+)k\d+\.\w+\.(\w+)\.")
_ASSEMBLY = r"static inline void (\w+)_{}\([^{{]*\{{\n  asm volatile\((.*?)\n               : .*?\);\n\}}\n"
#: Notes where a tile's steps are, and computes four sums of it where they are read, since the
#: work-items of a warp cannot meet here.
_PIPELINE_RUN = """\
#define NAME_run(sums, full, empty, left, right, first, phase, lane, next) \\
  const uint tile_first = (first), tile_left = (left), tile_right = (right);
#define NAME_step(sums, rests, full, empty, left, right, phase, lane)
static inline __attribute__((always_inline)) KIND NAME_sum(__local const uchar *scratch, const uint first, const uint left, const uint right) {
  KIND sum = 0;
  for (int step = 0; step < LENGTH; ++step) {
    const uint at = (first + step) % STAGES * STEP;
    for (int part = 0; part < PARTS; ++part)
      for (int word = 0; word < 32; ++word)
        sum += warp_products_TYPE(*(const __local uint *)SWIZZLED(scratch, at + left + word * 4),
                                  *(const __local uint *)SWIZZLED(scratch, at + right + part * BEHIND + word * 4));
  }
  return sum;
}
"""
#: Reads four sums that the warp has stored in local memory.
_PIPELINE_SUM = re.compile(r"\*\(__local const (\w+)4 \*\)\(slab \+ slab_row \* \d+ \+ slab_column\)")
_PIPELINE_FUNCTION = re.compile(
    r"static inline void (\w+)_(copy|fetch|expect|copied|await|meet)\((?:const uint|const int|\))[^{]*\{\n.*?\n\}\n",
    re.DOTALL,
)
_PIPELINE_FUNCTIONS = {
    "copy": "(to, from, bytes) for (int z = 0; z < 16; ++z) "
    "scratch[(to) + z] = z < (bytes) ? ((__global const uchar *)(from))[z] : 0",
    "fetch": "(to, from, arrived) for (int z = 0; z < 8192; ++z) "
    "scratch[(to) + z] = ((__global const uchar *)(from))[z]",
    "expect": "(arrived, bytes)",
    "copied": "(arrived)",
    "await": "(counter, phase)",
    "meet": "()",
}


#: A vector of results that need numbers of its row, which other work-items of a warp have.
_NUMBERS_CALL = re.compile(
    r"(\w+)_value4\(sum, ([^,]*), ([^,]*), (ahead\[i\], )?\1_numbers\([^;]*?slab_row\), *([^;]*)\);"
)
#: Chunks of columns' values, which the work-items of a team copy for all of them.
_CHUNKS = re.compile(r"chunk = lid % \([^)]*\); (chunk < [^;]*); chunk \+= [^)]*\)")
#: What the work-items of a warp add up for moments, and where one of them stores it.
_MOMENTS = re.compile(
    r"const float total = \w+_summed\(moments, lane\); \\\n"
    r"\s*const int place = lane & \((\d+) / 4 - 1\), (.*?); \\\n"
    r"\s*const int (m = .*?); \\\n"
    r"\s*if \((.*?)\) (\w+)\[(.*?)\] = total; \\\n"
)
_OWN_NUMBERS = re.compile(r" *float4 numbers;\n *\{\n.*?\n *\}\n", re.DOTALL)
_SHUFFLES = re.compile(r"static inline float4? (\w+)_(numbers|summed)\([^{]*\{\n.*?\n\}\n", re.DOTALL)


def _without_shuffles(text: str) -> str:
    """Returns a text in which each work-item computes the numbers of a row, and adds to moments."""
    text = _OWN_NUMBERS.sub("", text)
    text = _NUMBERS_CALL.sub(r"\1_value4(sum, \2, \3, \4\1_rows(\2, \5), \5);", text)
    text = _MOMENTS.sub(
        r"for (int place = 0; place < \1 / 4; ++place) { const int \2, \3; "
        r"if (\4) add_float(\5 + \6, moments[place]); } \\\n",
        text,
    )
    return _SHUFFLES.sub("", text)


def without_pipelines(text: str) -> str:
    """Returns a text without PTX whose groups copy all steps before they multiply them.

    Local memory needs as many stages as a group has steps. Moments are added to, and must be zero.
    """
    text = _CHUNKS.sub(r"chunk = 0; \1; ++chunk)", _without_shuffles(text))
    found = re.search(_ASSEMBLY.format("(?:run|step)"), text, re.DOTALL)
    assert found
    lines = found[2]
    instruction, kind = _INSTRUCTION.search(lines), _PIPELINE_SUM.search(text)
    steps = re.search(r"step < position \+ (\d+)", text) or re.search(r"setp\.lt\.u32 p, step, (\d+);", lines)
    sizes = re.search(r"scratch, full = steps_at \+ (\d+) \* (\d+),", text)
    behind = re.search(r"add\.u64 behind, matrix, (\d+);", lines)
    assert instruction
    assert kind
    assert steps
    assert sizes
    names: dict[str, object] = {
        "NAME": found[1],
        "KIND": kind[1],
        "LENGTH": steps[1],
        "STAGES": sizes[1],
        "STEP": sizes[2],
        "TYPE": instruction[2],
        "PARTS": 2 if behind else 1,
        "BEHIND": int(behind[1]) * 16 if behind else 0,
    }
    text = re.sub(
        r"(?=      const uint own = left )",
        "      const uint tile_first = position, tile_left = left, tile_right = steps_at + RIGHT_AT;\n",
        text,
    )
    right = re.search(r"steps_at \+ stage \* \d+ \+ (\d+ \* \d+) \+ ", text)
    assert right
    text = text.replace("RIGHT_AT", right[1])
    run = re.sub(rf"({'|'.join(names)})(?=[^A-Z]|$)", lambda name: str(names[name[0]]), _PIPELINE_RUN)
    text = text.replace(found[0], run)
    sums = (
        f"{found[1]}_sum(scratch, tile_first, tile_left + (lid % 128 / 32 * 16 + (block) * 64 + slab_row) * 128, "
        f"tile_right + ((behind) + slab_column + {column}) * 128)"
        for column in range(4)
    )
    text = _PIPELINE_SUM.sub(f"({kind[1]}4)({', '.join(sums)})", text).replace('_Pragma("unroll")', "")
    text = _PIPELINE_FUNCTION.sub(
        lambda found: f"#define {found[1]}_{found[2]}{_PIPELINE_FUNCTIONS[found[2]]}\n", text
    )
    text, roles = re.subn(
        r"\n  \} else \{\n(?=    asm)",
        "\n  }\n  barrier(CLK_LOCAL_MEM_FENCE);\n  if (lid < MULTIPLYING) {\n",
        text,
    )
    assert roles == 1
    text = re.sub(r"(?<=if \(lid >= )\d+", "MULTIPLYING", text)
    multiplying = re.search(r"const int item = lid - (\d+)", text)
    assert multiplying
    return _without_hidden(text.replace("MULTIPLYING", multiplying[1]))


def without_warpgroup_attention(text: str) -> str:
    """Returns a text without PTX whose warpgroups multiply matrices in local memory."""
    scoring, weighing = (re.search(_ASSEMBLY.format(name), text, re.DOTALL) for name in ("score", "weigh"))
    size = re.search(r"neurald_local_(\d+)", text)
    assert scoring
    assert weighing
    assert size
    text = text.replace(scoring[0], _scoring(scoring[1], scoring[2]))
    text = text.replace(weighing[0], _weighing(weighing[1], weighing[2], int(size[1])))
    text = re.sub(r"(neurald_local_(\d+))\[\d+\]", rf"\1[\2 + {4096 * 4}]", text)
    text = _WARP_FUNCTION.sub(_as_macro, text)
    text = _PAIR.sub("*found = warp_pair(low, high);\n", text)
    text = _COPY_OR_ZERO.sub(_COPIED_OR_ZERO, text).replace(_WARP_BARRIER, "barrier(CLK_LOCAL_MEM_FENCE);")
    return _without_hidden(text).replace(f"scratch + {_AT}", f"scratch + {size[1]}")


def _scoring(name: str, lines: str) -> str:
    instruction = _INSTRUCTION.search(lines)
    assert instruction
    count = int(instruction[1]) // 2
    parts = zip(
        re.findall(r"add\.u64 left, first_left, (\d+);", lines),
        re.findall(r"add\.u64 right, first_right, (\d+);", lines),
        strict=True,
    )
    products = "".join(
        f"""\
    for (int word = 0; word < 8; ++word)
      scores[j] += warp_products_f16(
        *(const __local uint *)SWIZZLED(queries, {int(left) * 16} + row * 128 + word * 4),
        *(const __local uint *)SWIZZLED(keys, {int(right) * 16} + column * 128 + word * 4));
"""
        for left, right in parts
    )
    return f"""\
static inline void {name}_score(float *scores, __local const uchar *queries, __local const uchar *keys) {{
  const int lid = get_local_id(0) % 128;
  for (int j = 0; j < {count}; ++j) {{
    const int row = lid / 32 * 16 + lid % 32 / 4 + j % 4 / 2 * 8, column = j / 4 * 8 + lid % 4 * 2 + j % 2;
    scores[j] = 0;
{products}  }}
}}
"""


def _weighing(name: str, lines: str, scratch_bytes: int) -> str:
    """The weights of a part are exchanged behind the kernel's local memory."""
    instruction = _INSTRUCTION.search(lines)
    description = re.search(r"or\.b64 first_right, first_right, (0x\w+);", lines)
    assert instruction
    assert description
    count, block_bytes = int(instruction[1]) // 2, (int(description[1], 16) >> 16 & 0x3FFF) * 16
    eight_bytes = (int(description[1], 16) >> 32 & 0x3FFF) * 16
    parts = re.findall(
        r"add\.u64 right, first_right, (\d+);\\n\"\s+\"\S+ wgmma\S+ \{[^}]*\}, \{([^}]*)\}", lines
    )
    text = ""
    for offset, registers in parts:
        given = [int(each.strip().lstrip("%")) - count for each in registers.split(",")]
        text += f"""\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    for (int z = 0; z < 4; ++z) \\
      all[(part_row + z % 2 * 8) * 8 + lid % 4 + z / 2 * 4] = z == 0 ? (weights)[{given[0]}] : z == 1 ? (weights)[{given[1]}] : z == 2 ? (weights)[{given[2]}] : (weights)[{given[3]}]; \\
    barrier(CLK_LOCAL_MEM_FENCE); \\
    for (int j = 0; j < {count}; ++j) \\
      for (int k = 0; k < 16; ++k) {{ \\
        const int feature = j / 4 * 8 + lid % 4 * 2 + j % 2; \\
        const uint pair = all[(part_row + j % 4 / 2 * 8) * 8 + k / 2]; \\
        const uint value = *(const __local ushort *)SWIZZLED(values, {int(offset) * 16} + feature / 64 * {block_bytes} + k / 8 * {eight_bytes} + k % 8 * 128 + feature % 64 * 2); \\
        (sums)[j] += warp_products_f16(k % 2 ? pair >> 16 : pair & 65535, value); \\
      }} \\
"""
    assert text
    return f"""\
#define {name}_weigh(sums, weights, values) {{ \\
    __local uint *all = (__local uint *)(scratch + {scratch_bytes}) + lid / 128 * 512; \\
    const int part_row = lid % 128 / 32 * 16 + lid % 32 / 4; \\
{text}    barrier(CLK_LOCAL_MEM_FENCE); \\
  }}
"""


def _without_hidden(text: str) -> str:
    """Returns a text without the rest of PTX, and without instructions that only GPUs need."""
    text = re.sub(r'asm volatile\("//@ setmaxnreg.*?\n', "\n", text)
    text = re.sub(r"(neurald_local_(\d+))\[\d+\]", r"\1[\2]", text)
    text = text.replace("#pragma unroll\n", "#pragma unroll 1\n").replace(HIDDEN, "")
    return _MULTIPLY + _SWIZZLED + without_ptx(text.replace("(uint)(ulong)scratch", "0"))


def without_warps(text: str) -> str:
    """Returns a text without PTX, for work-groups of 256 whose warps run in lockstep."""
    text, count = _MULTIPLYING.subn(
        r"#define \1_multiply(sums, left, low, high) WARP_MULTIPLY(warp_products_\2, sums, left, low, high)\n",
        text,
    )
    text, others = _WARP_FUNCTION.subn(_as_macro, text)
    if _READ_BY_ADDRESS.search(text):
        text = _READ_BY_ADDRESS.sub("", text)
        text = _COPY_BY_ADDRESS.sub(
            r"#define \1_copy(to, from, bytes) for (int z = 0; z < 16; ++z)"
            r" scratch[(to) + z] = (bytes) ? ((__global const uchar *)(from))[z] : 0\n",
            text,
        )
        text = _READ_CALL.sub(r"WARP_READ(&\1, scratch + (\2));", text)
        text = text.replace("(uint)(ulong)scratch", "0").replace(
            _WARP_BARRIER, "barrier(CLK_LOCAL_MEM_FENCE);"
        )
    assert count or others
    text = _BYTES_OF.sub(r"#define \1_bytes(first, second, which) warp_bytes(first, second, which)\n", text)
    text = _REST.sub(r"rest = as_uint(\1);\n", text)
    text = _ASKED.sub("found = *from;\n", text)
    text = _COPY.sub(r"for (int i = 0; i < \1; ++i) to[i] = from[i];", text)
    text = _COPY_OR_ZERO.sub(_COPIED_OR_ZERO, text)
    text = _PAIR.sub("*found = warp_pair(low, high);\n", text)
    text = _COUNT.sub("others = atomic_inc(count);", text)
    # Unrolled, the values that work-items keep across the barriers do not fit a thread's stack.
    text = text.replace("#pragma unroll\n", "#pragma unroll 1\n")
    text = without_ptx(text)
    text = re.sub(r"__local uchar scratch\[\d+\]", f"__local uchar scratch[{_AT + _BYTES}]", text)
    return _MULTIPLY + text


def with_tensor_cores(facts: DeviceFacts) -> DeviceFacts:
    """Returns the facts of the same device as a GPU with tensor cores."""
    return replace(
        facts,
        kind=DeviceKind.GPU,
        compute_units=64,
        is_nvidia=True,
        compute_capability=(8, 0),
        has_dot_product=True,
        local_memory_bytes=_AT,
    )
