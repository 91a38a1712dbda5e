// What classes can be defined and explained, and not be written to yet.
import type { ClassDefinition } from './class-definition.ts';

/** Why nothing can be written to a class; null: it can. */
export function findObstacle({
  durability,
  access,
  loss,
  minimum,
}: ClassDefinition): string | null {
  if (durability.legs.length > 1) {
    return 'It has several legs, and this version of Bursar writes to one.';
  }
  if (access === 'restore') return 'This version of Bursar restores nothing from archives.';
  if (loss === 'recipe') return 'This version of Bursar makes nothing again by recipes.';
  if (minimum.days > 0 || minimum.bytes > 0) {
    return 'This version of Bursar charges no minimum of a class.';
  }
  return null;
}
