// The radix tree of the object keys of one block. Invariant: the first of its nodes, in the order
// of their bytes, that begins with a prefix has exactly the records whose keys begin with it; if
// there is none, no record has. So each prefix, however many or few keys begin so, is one look-up.
// Pure.

export interface KeyNode {
  /** UTF-8; not empty. */
  prefix: Buffer;
  /** Places of the records below it, in order. */
  places: number[];
}

/** The nodes above the keys, and the keys themselves. */
export function keyNodes(placesOfKey: ReadonlyMap<string, readonly number[]>): KeyNode[] {
  const leaves = Array.from(placesOfKey, ([key, places]) => {
    return { prefix: Buffer.from(key), places: [...places] };
  });
  leaves.sort((one, other) => Buffer.compare(one.prefix, other.prefix));
  const nodes: KeyNode[] = [];
  if (leaves.length > 0) addNode(leaves, { from: 0, to: leaves.length }, nodes);
  return nodes;
}

/** Adds the node above a run of keys, and all below it. Gives its places. */
function addNode(
  leaves: readonly KeyNode[],
  { from, to }: { from: number; to: number },
  nodes: KeyNode[],
): number[] {
  const first = leaves[from] as KeyNode;
  const length = sharedBytes(first.prefix, (leaves[to - 1] as KeyNode).prefix);
  const node = { prefix: first.prefix.subarray(0, length), places: [] as number[] };
  if (length > 0) nodes.push(node);
  let begin = from;
  if (first.prefix.length === length) {
    node.places = first.places;
    begin += 1;
  }
  const below: number[][] = [node.places];
  while (begin < to) {
    const end = endOfRun(leaves, { from: begin, to }, length);
    below.push(addNode(leaves, { from: begin, to: end }, nodes));
    begin = end;
  }
  if (below.length > 1) node.places = below.flat().sort((one, other) => one - other);
  return node.places;
}

/** Where the keys end that have the same byte at `at` as the first of them. */
function endOfRun(
  leaves: readonly KeyNode[],
  { from, to }: { from: number; to: number },
  at: number,
): number {
  const byte = leaves[from]?.prefix[at];
  let end = from + 1;
  while (end < to && leaves[end]?.prefix[at] === byte) end += 1;
  return end;
}

function sharedBytes(one: Buffer, other: Buffer): number {
  const most = Math.min(one.length, other.length);
  let length = 0;
  while (length < most && one[length] === other[length]) length += 1;
  return length;
}
