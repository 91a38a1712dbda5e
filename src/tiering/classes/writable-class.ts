// What classes can be defined and explained, and not be written to yet.
import type { ClassDefinition } from './class-definition.ts';

/** Why nothing can be written to a class; null: it can. */
export function findObstacle(definition: ClassDefinition): string | null {
  const { minimum } = definition;
  if (minimum.days > 0 || minimum.bytes > 0) {
    return 'This version of Bursar charges no minimum of a class.';
  }
  return null;
}
