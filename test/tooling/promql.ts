// What PromQL queries name, by Prometheus's own grammar.
import { parser } from '@prometheus-io/lezer-promql';

type Tree = ReturnType<typeof parser.parse>;
type Node = Tree['topNode'];

export interface Matcher {
  label: string;
  operator: string;
  value: string;
}

/** A metric in a query, and what is asked of its labels. */
export interface Selector {
  metric: string;
  matchers: Matcher[];
}

export interface Query {
  selectors: Selector[];
  /** Labels by which something is grouped, and the metrics that it is made of. */
  groupings: { label: string; metrics: string[] }[];
}

/** Throws when it is no query. */
export function readQuery(text: string): Query {
  const textOf = ({ from, to }: Node): string => text.slice(from, to);
  const query: Query = { selectors: [], groupings: [] };
  const visit = (node: Node): string[] => {
    if (node.type.isError) throw new Error(`not PromQL at ${node.from}: ${text}`);
    if (node.name === 'VectorSelector') {
      const selector = selectorOf(node, textOf);
      query.selectors.push(selector);
      return [selector.metric];
    }
    const metrics = childrenOf(node).flatMap(visit);
    for (const modifier of node.getChildren('AggregateModifier')) {
      const labels = childrenOf(modifier).flatMap((child) => child.getChildren('LabelName'));
      for (const label of labels) query.groupings.push({ label: textOf(label), metrics });
    }
    return metrics;
  };
  visit(parser.parse(text).topNode);
  return query;
}

function selectorOf(node: Node, textOf: (node: Node) => string): Selector {
  const metric = node.getChild('Identifier');
  if (!metric) throw new Error('a selector without the name of a metric');
  const given = node.getChild('LabelMatchers')?.getChildren('UnquotedLabelMatcher') ?? [];
  const matchers = given.map((one): Matcher => {
    const [label, operator, value] = ['LabelName', 'MatchOp', 'StringLiteral'].map((name) => {
      const part = one.getChild(name);
      if (!part) throw new Error(`a matcher without ${name}`);
      return textOf(part);
    });
    return { label: String(label), operator: String(operator), value: String(value).slice(1, -1) };
  });
  return { metric: textOf(metric), matchers };
}

function childrenOf(node: Node): Node[] {
  const children: Node[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) children.push(child);
  return children;
}
