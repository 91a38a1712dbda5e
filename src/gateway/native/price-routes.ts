// Native API: the price books that a gateway charges by, so that commands need none of their own.
import { isoTime, nowMs } from '../../core/clock.ts';
import { localStore } from '../../core/manifest.ts';
import { marketOf } from '../../quota/prices/price-books.ts';
import { routeTable } from './route.ts';
import { answerObject, boolean, text } from './schemas.ts';

const book = answerObject({
  name: { type: 'string' },
  market: text('Whose prices, and where: `aws/us-east-1`.'),
  effective: text('The day, of UTC, from which on they hold.'),
  inForce: boolean('Whether they are the newest of their market that hold now.'),
  isUsual: boolean('Whether what is kept on the local disk is charged by them now.'),
  text: text('The book as its file has it: docs/formats/price-book.md.'),
});

export const priceRoutes = routeTable([
  {
    method: 'GET',
    url: '/_/v1/price-books',
    action: 'bursar:ListPriceBooks',
    summary: 'Show all price books that the gateway knows: those of Bursar and the operator’s.',
    answer: answerObject({ books: { type: 'array', items: book } }),
    run: async ({ deps: { priceBooks, bookOf } }) => {
      const now = nowMs();
      const books = [...priceBooks].map((one) => ({
        ...{ name: one.name, market: marketOf(one), text: one.text },
        effective: isoTime(one.effectiveMs).slice(0, 'yyyy-mm-dd'.length),
        inForce: priceBooks.inForce(marketOf(one), now) === one,
        isUsual: bookOf(localStore) === one,
      }));
      return { answer: { books } };
    },
  },
]);
