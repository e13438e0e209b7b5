import { expect, test } from 'vitest'
import type { Priority } from '../../../src/core/model/policy.ts'
import { CallQueue } from '../../../src/outbound/call-queue.ts'

interface Call {
  readonly id: string
  readonly priority: Priority
  readonly tenant: string
  readonly repetitions: number
}

function call(id: string, priority: Priority = 'default', tenant = ''): Call {
  return { id, priority, tenant, repetitions: 0 }
}

function drain(queue: CallQueue<Call>): string {
  const order: string[] = []
  for (let head = queue.head; head; head = queue.head) {
    order.push(head.id)
    queue.take(head)
  }
  return order.join(' ')
}

test('a call that is removed leaves the turns of others alone', () => {
  const queue = new CallQueue<Call>()
  const [a1, a2, b1] = [call('a1', 'default', 'a'), call('a2', 'default', 'a'), call('b1', 'default', 'b')]
  for (const one of [a1, a2, b1]) queue.add(one)
  expect(queue.remove(a1)).toBe(true)
  expect(queue.remove(a1)).toBe(false)
  expect(queue.has(a2)).toBe(true)
  expect(drain(queue)).toBe('a2 b1')
})

test('a call that is repeated comes before others of its tenant, not before other tenants', () => {
  const queue = new CallQueue<Call>()
  for (const one of [call('b1', 'default', 'b'), call('a1', 'default', 'a'), call('a2', 'default', 'a')]) queue.add(one)
  const repeat = (id: string, repetitions: number) => ({ ...call(id, 'default', 'a'), repetitions })
  for (const one of [repeat('r1', 1), repeat('r2', 1), repeat('most', 2)]) queue.add(one)
  queue.add({ ...call('s0', 'sheddable', 'a'), repetitions: 1 })
  expect(drain(queue)).toBe('b1 most r1 r2 a1 a2 s0')
})

test('the least important is the latest of the lowest priority, of the tenant with the most', () => {
  const queue = new CallQueue<Call>()
  expect(queue.findLeastImportant()).toBeUndefined()
  for (const id of ['a1', 'a2']) queue.add(call(id, 'sheddable', 'a'))
  for (const one of [call('b1', 'sheddable', 'b'), call('c1', 'critical'), call('d1')]) queue.add(one)
  const order: string[] = []
  for (let least = queue.findLeastImportant(); least; least = queue.findLeastImportant()) {
    order.push(least.id)
    queue.remove(least)
  }
  expect(order).toEqual(['a2', 'b1', 'a1', 'd1', 'c1'])
})
