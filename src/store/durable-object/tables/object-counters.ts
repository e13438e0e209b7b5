import type { Counters, Counts, Flush, Period, Resolution } from '../../counters.ts'
import { fromPlain, type PlainCount, type PlainPeriod, toPlain } from './messages.ts'
import { ObjectCalls, type ObjectCallsOptions } from './object-calls.ts'

export interface ObjectCountersOptions extends ObjectCallsOptions {
  /** First part of every name. */
  readonly keyPrefix: string
}

/** Counts of all isolates in a Durable Object: a flush is one request, which writes a row for each period and one for all. */
export class ObjectCounters implements Counters {
  readonly #calls: ObjectCalls

  constructor({ keyPrefix, ...options }: ObjectCountersOptions) {
    this.#calls = new ObjectCalls(options, `${keyPrefix}:statistics`)
  }

  async add({ source, number, minutes }: Flush): Promise<void> {
    await this.#calls.call('counters', 'add', { source, number, minutes: minutes.map(toPlain) })
  }

  async read(resolution: Resolution, fromMs: number, toMs: number): Promise<readonly Period[]> {
    const periods = await this.#calls.call<PlainPeriod[]>('counters', 'read', resolution, fromMs, toMs)
    return periods.map(fromPlain)
  }

  async totals(): Promise<Counts> {
    return new Map(await this.#calls.call<PlainCount[]>('counters', 'totals'))
  }
}
