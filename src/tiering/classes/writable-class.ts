// What classes can be defined and explained, and not be written to yet.
import { localStoreName } from '../../core/manifest.ts';
import type { ClassDefinition } from './class-definition.ts';

/** Why nothing can be written to a class; null: it can. */
export function findObstacle(definition: ClassDefinition): string | null {
  const { durability, minimum } = definition;
  if (durability.legs.length > 1) {
    if (durability.legs.some(({ store }) => store === localStoreName)) {
      return 'One of its several legs is the data folder: a folder store on its disk can be one.';
    }
  }
  if (minimum.days > 0 || minimum.bytes > 0) {
    return 'This version of Bursar charges no minimum of a class.';
  }
  return null;
}
