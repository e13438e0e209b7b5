import { concurrency, createLimiter } from 'sluice'

/** Grants of 25 calls, and whether a slot can be held before, while and after another one is. */
globalThis.used = (async () => {
  const calls = createLimiter({ limits: '10/1h' })
  // A longer identity is hashed.
  const identity = 'x'.repeat(501)
  const granted = []
  for (let call = 0; call < 25; call++) granted.push((await calls.take(identity)).granted)
  const slots = createLimiter({ policies: [{ name: 'slots', ...concurrency(1) }] })
  const held = await slots.hold('caller')
  const held2 = await slots.hold('caller')
  await held.release()
  const held3 = await slots.hold('caller')
  return { granted, slots: [held.granted, held2.granted, held3.granted] }
})()
