import { describe, expect, test } from 'vitest'
import { History } from '../../support/history.ts'
import { audit } from './audit.ts'
import { Ledger } from './ledger.ts'
import { type Decision, RecordReader } from './redis-record.ts'
import { judgeBetween, judgeInOrder } from './refusals.ts'
import type { Outcome } from './traffic.ts'

// Faults are planted here, and must be found.

const KEY = 'p:caller:w:{one}'
const LIMIT = { limit: 10, windowMs: 1_000 }

function createHistory(...entries: readonly (readonly [ms: number, cost: number])[]): History {
  const history = new History()
  for (const [ms, cost] of entries) history.add(ms, cost)
  return history
}

describe('History#used()', () => {
  test('sums what lies in a span, its start excluded', () => {
    const history = createHistory([100, 1], [200, 2], [200, 4], [300, 8])
    expect(history.used(100, 300)).toBe(14)
    expect(history.used(99, 200)).toBe(7)
    expect(history.used(200, 299)).toBe(0)
    expect(history.used(0, Number.POSITIVE_INFINITY)).toBe(15)
    expect(history.moments(100, 299)).toEqual([200, 200])
  })
})

describe('judgeInOrder()', () => {
  const demands = [{ cost: 5, limits: [LIMIT], history: createHistory([0, 3], [100, 3]) }]

  test.each([
    [500, 500, 'due'],
    [999, 999, 'due'],
    [1_000, 1_000, 'undue'],
    [999, 1_000, 'either'],
    [5_000, 5_001, 'undue'],
  ])('judges a refusal between %d and %d ms: %s', (earliestMs, latestMs, expected) => {
    expect(judgeInOrder(demands, earliestMs, latestMs)).toBe(expected)
  })

  test('goes by whichever limit and key has no room', () => {
    const wide = { limit: 100, windowMs: 1_000 }
    const roomy = { cost: 1, limits: [wide], history: createHistory([400, 99]) }
    const narrow = { cost: 1, limits: [wide, { limit: 5, windowMs: 10_000 }], history: createHistory([400, 5]) }
    expect(judgeInOrder([roomy], 500, 500)).toBe('undue')
    expect(judgeInOrder([roomy, narrow], 500, 500)).toBe('due')
  })
})

describe('judgeBetween()', () => {
  const demands = [{ cost: 5, limits: [LIMIT], history: createHistory([0, 3], [100, 3], [2_000, 6]) }]

  test.each([
    [500, 600, 'due'],
    [999, 1_500, 'due'],
    [1_000, 1_999, 'undue'],
    // It may have come after the admission at 2,000.
    [1_999, 2_000, 'due'],
    [3_000, 4_000, 'undue'],
  ])('judges a refusal sent at %d and answered at %d ms: %s', (sentMs, receivedMs, expected) => {
    expect(judgeBetween(demands, sentMs, receivedMs)).toBe(expected)
  })
})

function admission(ms: number, total: number, cost: number): Decision {
  return { earliestMs: ms, latestMs: ms, charges: [{ key: KEY, cost }], entries: [{ key: KEY, ms, total, cost }] }
}

function refusal(ms: number, cost: number): Decision {
  return { earliestMs: ms, latestMs: ms, charges: [{ key: KEY, cost }], entries: [] }
}

function createLedger(...decisions: readonly Decision[]): Ledger {
  const ledger = new Ledger(() => [LIMIT])
  for (const decision of decisions) ledger.add(decision)
  return ledger
}

describe('Ledger', () => {
  test('finds nothing wrong with exact decisions', () => {
    const ledger = createLedger(
      admission(0, 4, 4),
      admission(10, 10, 6),
      refusal(20, 1),
      refusal(999, 4),
      admission(1_000, 14, 4),
    )
    expect([ledger.faults, ledger.undue, ledger.either]).toEqual([[], 0, 0])
    // The stream has expired.
    ledger.add(admission(5_000, 2, 2))
    expect(ledger.faults).toEqual([])
  })

  test('finds an undue refusal', () => {
    expect(createLedger(admission(0, 4, 4), refusal(10, 6)).undue).toBe(1)
    expect(createLedger(admission(0, 10, 10), refusal(1_000, 1)).undue).toBe(1)
  })

  test.each([
    ['a total that leaves units out', [admission(0, 4, 4), admission(10, 6, 3)]],
    ['an admission that the record lacks', [admission(0, 4, 4), admission(10, 9, 3)]],
    ['a stream that began anew within a window', [admission(0, 4, 4), admission(900, 4, 4)]],
    ['a time that is not that of the decision', [{ ...admission(50, 4, 4), earliestMs: 60, latestMs: 61 }]],
    ['another cost than was to be charged', [{ ...admission(50, 4, 4), charges: [{ key: KEY, cost: 5 }] }]],
    [
      'a charge for one policy of two',
      [{ ...admission(50, 4, 4), charges: [...admission(50, 4, 4).charges, { key: 'p:team:w:{a}', cost: 1 }] }],
    ],
  ])('finds %s', (_name, decisions) => {
    expect(createLedger(...decisions).faults).toHaveLength(1)
  })
})

describe('audit()', () => {
  const answer = (status: number, ms: number, cost: number, degraded?: string): Outcome => {
    return { caller: 0, team: 0, cost, status, sentMs: ms - 1, decidedByMs: ms + 1, degraded }
  }
  const kept = [admission(0, 1, 1), admission(10, 9, 8), refusal(20, 2)]
  const answers = [answer(200, 0, 1), answer(200, 10, 8), answer(429, 20, 2)]
  const audited = (...more: readonly Outcome[]) => audit([...answers, ...more], createLedger(...kept), false)

  test('finds nothing wrong with answers that are what Redis decided', () => {
    expect(audited()).toEqual({ admitted: 2, refused: 1, calls: 3, undue: 0, faults: [] })
    expect(audited(answer(429, 500, 2))).toMatchObject({ refused: 2, calls: 3, undue: 0, faults: [] })
  })

  test('finds a refusal from memory that had run out', () => {
    expect(audited(answer(429, 1_002, 2))).toMatchObject({ undue: 1, faults: [] })
  })

  test('finds a refusal of one cost that was for another', () => {
    expect(audited(answer(429, 500, 1))).toMatchObject({ undue: 1 })
  })

  test.each([
    ['an admission that Redis did not make', answer(200, 30, 1)],
    ['an answer that is none of a limiter', answer(503, 30, 1)],
    ['a decision without Redis', answer(429, 30, 2, 'local')],
  ])('finds %s', (_name, outcome) => {
    expect(audited(outcome).faults).toHaveLength(1)
  })

  test('finds permits that were used and never charged, where they are taken in advance', () => {
    const ahead = { ...admission(110, 5, 5), earliestMs: 10, latestMs: 10, charges: [{ key: KEY, cost: 1 }] }
    const ledger = new Ledger(() => [LIMIT], true)
    ledger.add(ahead)
    expect(ledger.faults).toEqual([])
    const spent = Array.from({ length: 5 }, (_, index) => answer(200, 20 + index, 1))
    expect(audit(spent, ledger, true).faults).toEqual([])
    expect(audit([...spent, answer(200, 90, 1)], ledger, true).faults).toHaveLength(1)
    // Its lease had ended when it was sent.
    expect(audit([...spent.slice(1), answer(200, 112, 1)], ledger, true).faults).toHaveLength(1)
  })

  test('finds an undue refusal, where permits are taken in advance', () => {
    const ledger = new Ledger(() => [LIMIT], true)
    const lease = { ...admission(110, 5, 5), earliestMs: 10, latestMs: 10, charges: [{ key: KEY, cost: 1 }] }
    for (const decision of [lease, refusal(20, 6), refusal(30, 5), refusal(1_109, 6), refusal(1_110, 6)]) {
      ledger.add(decision)
    }
    expect(ledger).toMatchObject({ undue: 2, leases: 1, refusedDuringLeases: 2 })
    const answers = [
      answer(429, 5, 6),
      answer(429, 20, 6),
      answer(429, 30, 5),
      answer(429, 1_108, 6),
      answer(429, 1_112, 6),
    ]
    expect(answers.map((each) => audit([each], ledger, true).undue)).toEqual([1, 0, 1, 0, 1])
  })

  test('finds what Redis decided and no client got', () => {
    expect(audit(answers.slice(1), createLedger(...kept), false).faults).toHaveLength(1)
    expect(audit(answers.slice(0, 2), createLedger(...kept), false).faults).toHaveLength(1)
  })
})

describe('RecordReader', () => {
  const read = (lines: readonly string[], frozenMs = 0) => {
    const decisions: Decision[] = []
    const reader = new RecordReader((decision) => decisions.push(decision), frozenMs)
    for (const line of lines) reader.read(line)
    return decisions
  }
  const command = `"1" "${KEY}" "all" "1" "0" "w enforce requests 3 0" "2" "10" "1000"`
  const admitted = [
    `+1700000000.123900 [0 127.0.0.1:1] "evalsha" "abc" ${command}`,
    '+1700000000.124010 [0 lua] "TIME"',
    `+1700000000.124020 [0 lua] "XREVRANGE" "${KEY}" "+" "-" "COUNT" "8"`,
    `+1700000000.124030 [0 lua] "XADD" "${KEY}" "MINID" "1699999999125" "1700000000124-7" "1000" "3"`,
  ]
  const next = '+1700000000.125000 [0 127.0.0.1:1] "ping"'

  test('reads an admission, and the span in which Redis read its clock', () => {
    const entry = { key: KEY, ms: 1_700_000_000_124, total: 7, cost: 3 }
    const decision = {
      earliestMs: 1_700_000_000_123,
      latestMs: 1_700_000_000_124,
      charges: [{ key: KEY, cost: 3 }],
      entries: [entry],
    }
    expect(read([...admitted, next])).toEqual([decision])
    expect(read([...admitted, next], 1)).toEqual([{ ...decision, earliestMs: 1_700_000_000_122 }])
  })

  test('reads a refusal', () => {
    expect(read([...admitted.slice(0, 3), next])).toMatchObject([{ charges: [{ key: KEY, cost: 3 }], entries: [] }])
  })

  test('reads a whole script that Redis had not known by its hash as one decision', () => {
    const script = `+1700000000.123950 [0 127.0.0.1:1] "eval" "return \\"a\\" \\\\" ${command}`
    expect(read([admitted[0] as string, script, ...admitted.slice(1), next])).toMatchObject([
      { charges: [{ key: KEY, cost: 3 }], entries: [{ total: 7 }] },
    ])
  })

  test('reads several keys', () => {
    const two = `"2" "a" "b" "all" "1" "0" "w enforce requests 3 0" "2" "10" "1000" "w" "4" "5" "1" "6" "2"`
    const call = `+1700000000.123900 [0 127.0.0.1:1] "evalsha" "abc" ${two}`
    expect(read([call, admitted[1] as string, next])).toMatchObject([
      {
        charges: [
          { key: 'a', cost: 3 },
          { key: 'b', cost: 1 },
        ],
      },
    ])
  })
})
