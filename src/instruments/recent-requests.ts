// The newest requests of a thread, kept in memory so that who made one can be told how it went
// (`bursar why`). Invariants: memory is bounded by counts, and a place is used again instead of a
// new one being made; strangers' requests have places of their own, so that they push out nobody
// else's; and nothing with which another could act is kept, as in the log.
import type { ObservedRequest, RequestObserver, Way } from './observed-request.ts';
import { type Stage, stages } from './stage-clock.ts';

/** How many requests a thread keeps: of those who are known, and of strangers. */
export const recentKnownMax = 8192;
const recentStrangersMax = 512;

/** A message is what the client was told, which can be as long as what it asked for. */
const messageLengthMax = 1024;

/** What became of a request: plain data. */
export interface RequestStory {
  id: string;
  /** When it ended, milliseconds since the Unix epoch. */
  endedMs: number;
  way: Way;
  method: string;
  operation: string | null;
  tenant: string | null;
  principal: string | null;
  /** `tenant:bucket` where it is another tenant's. */
  bucket: string | null;
  store: string | null;
  /** 0: no answer was sent. */
  status: number;
  error: string | null;
  /** Why, as the client was told; null: it was told nothing. */
  message: string | null;
  /** What let it in, or refused it; null: no rules were asked. */
  rule: string | null;
  ruleTenant: string | null;
  bytesIn: number;
  bytesOut: number;
  /** Log index of its record, where that was made before the answer. */
  record: number | null;
  source: string;
  durationMs: number;
  firstByteMs: number;
  stagesMs: Record<Stage, number>;
}

export class RecentRequests implements RequestObserver {
  readonly #known: Ring;
  readonly #strangers: Ring;
  readonly #anonymousName: string | null;
  readonly #nowMs: () => number;

  /** `anonymousName`: of who asks without credentials. */
  constructor({
    anonymousName = null as string | null,
    known = recentKnownMax,
    strangers = recentStrangersMax,
    nowMs = Date.now as () => number,
  } = {}) {
    this.#known = new Ring(known);
    this.#strangers = new Ring(strangers);
    this.#anonymousName = anonymousName;
    this.#nowMs = nowMs;
  }

  observe(request: ObservedRequest): void {
    const { principal } = request;
    const isKnown = principal !== null && principal !== this.#anonymousName;
    const ring = isKnown ? this.#known : this.#strangers;
    ring.add(request, this.#nowMs());
  }

  /** undefined: it is not among them, or not any more. */
  find(id: string): RequestStory | undefined {
    return this.#known.find(id) ?? this.#strangers.find(id);
  }
}

class Ring {
  readonly #stories: RequestStory[] = [];
  readonly #max: number;
  #next = 0;

  constructor(max: number) {
    this.#max = max;
  }

  add(request: ObservedRequest, endedMs: number): void {
    let story = this.#stories[this.#next];
    if (!story) {
      story = blank();
      this.#stories.push(story);
    }
    this.#next = (this.#next + 1) % this.#max;
    fill(story, request, endedMs);
  }

  /** A copy, since its place is used again. */
  find(id: string): RequestStory | undefined {
    const story = this.#stories.find((one) => one.id === id);
    return story && { ...story, stagesMs: { ...story.stagesMs } };
  }
}

function fill(story: RequestStory, request: ObservedRequest, endedMs: number): void {
  const { clock, message } = request;
  story.id = request.id;
  story.endedMs = endedMs;
  story.way = request.way;
  story.method = request.method;
  story.operation = request.operation;
  story.tenant = request.tenant;
  story.principal = request.principal;
  story.bucket = request.bucket;
  story.store = request.store;
  story.status = request.status;
  story.error = request.error;
  story.message = message === null ? null : message.slice(0, messageLengthMax);
  story.rule = request.rule;
  story.ruleTenant = request.ruleTenant;
  story.bytesIn = request.bytesIn;
  story.bytesOut = request.bytesOut;
  story.record = request.index;
  story.source = request.source;
  story.durationMs = request.durationMs;
  story.firstByteMs = clock.firstByteMs;
  for (const stage of stages) story.stagesMs[stage] = clock.msIn(stage);
}

function blank(): RequestStory {
  const nothing = { operation: null, tenant: null, principal: null, bucket: null, store: null };
  const stagesMs = Object.fromEntries(stages.map((stage) => [stage, 0])) as Record<Stage, number>;
  return {
    ...{ id: '', endedMs: 0, way: 's3', method: '', ...nothing, status: 0, error: null },
    ...{
      message: null,
      rule: null,
      ruleTenant: null,
      bytesIn: 0,
      bytesOut: 0,
      record: null,
      source: '',
    },
    ...{ durationMs: 0, firstByteMs: 0, stagesMs },
  };
}

/** The same of all threads. */
export class RecentEverywhere {
  readonly #own: Pick<RecentRequests, 'find'>;
  #askOthers: ((id: string) => Promise<RequestStory | undefined>) | null = null;

  constructor(own: Pick<RecentRequests, 'find'>) {
    this.#own = own;
  }

  /** `ask` gives what any other thread has. */
  addOthers(ask: (id: string) => Promise<RequestStory | undefined>): void {
    this.#askOthers = ask;
  }

  async find(id: string): Promise<RequestStory | undefined> {
    return this.#own.find(id) ?? this.#askOthers?.(id);
  }
}
