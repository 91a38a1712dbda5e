// The environment of a program that is to know nothing of who runs the tests.

const kept = ['PATH', 'NODE_COMPILE_CACHE'];

/**
 * Where programs are, and, where the run keeps it, what V8 made of their code: without that, each
 * start compiles all of it anew.
 */
export function bareEnvironment(): Record<string, string> {
  const named = kept.map((name) => [name, process.env[name]] as const);
  return Object.fromEntries(named.filter(([, value]) => value !== undefined)) as Record<
    string,
    string
  >;
}
