/** One fault for each command that judges: planted, it turns the command's shortest form red. */
import { SOAK_FAULTS } from '../system/soak/faults.ts'
import { FAULTS, type Fault } from './faults.ts'

export interface PlantedCommand {
  readonly command: string
  /** The shortest form that shows it: it ends with a verdict, which is green without the fault. */
  readonly args: readonly string[]
  readonly fault: Fault
  /** A line of its output that says what is wrong: a command that broke for another reason has judged nothing. */
  readonly says: RegExp
}

const UNIT_TOO_MANY: Fault = {
  name: 'script-admits-a-unit-too-many',
  file: 'lua/sliding-window.lua',
  find: 'return available, state, false, newest[2][3]',
  replace: 'return available + 1, state, false, newest[2][3]',
}
/** Finds a fault that `npm test` must find, too. */
function findFault(name: string): Fault {
  const fault = FAULTS.find((each) => each.name === name)
  if (!fault) throw new Error(`no fault is called ${name}`)
  return fault
}

const run = (command: string, ...args: string[]) => ['npm', 'run', '--silent', command, '--', ...args]

const PLACE = 'a browser runs the limiter in memory'

export const COMMANDS: readonly PlantedCommand[] = [
  {
    command: 'test:model',
    args: run('test:model', '2 deciders, 2 objects: all of it'),
    fault: findFault('cancel-takes-nothing-back'),
    says: /^2 deciders, 2 objects: all of it: [1-9]\d* violations$/,
  },
  {
    command: 'test:exactness',
    args: run('test:exactness', '--requests', '10000'),
    fault: UNIT_TOO_MANY,
    says: /^[1-9]\d* windows of .* held more than their limit/,
  },
  {
    command: 'test:histories',
    args: run('test:histories', '--requests', '2000', '--store', 'redis'),
    fault: UNIT_TOO_MANY,
    says: /^\w+: violated /i,
  },
  {
    command: 'test:numbers',
    args: run('test:numbers', '--requests', '2000'),
    fault: findFault('counter-off-by-one'),
    says: /: clients saw \d+, counted are \d+$/,
  },
  {
    command: 'test:rules-spread',
    args: run('test:rules-spread', '--rate', '100'),
    fault: {
      name: 'blocks-let-in',
      file: 'src/gateway/rules/rule-index.ts',
      find: 'return logInstead ? undefined : blocked',
      replace: 'return undefined',
    },
    says: /^the blocked caller was let in/,
  },
  {
    command: 'test:faults',
    args: run('test:faults', '--short', '--only', 'Redis: FLUSHALL'),
    fault: findFault('slot-kept'),
    says: /^not as promised: Redis: FLUSHALL/,
  },
  {
    command: 'test:dodging',
    args: run('test:dodging', '--only', 'express5', '--spellings', '1000'),
    fault: findFault('case-not-folded'),
    says: /^express5: \w+ was served uncharged to /,
  },
  {
    command: 'test:system -- frameworks',
    // One place of all. The reporter of other runs takes the tests that this leaves out for failed.
    args: [
      'vitest',
      'run',
      '--config',
      'vitest.system.config.ts',
      '--reporter=default',
      '--project',
      'frameworks',
      '-t',
      PLACE,
    ],
    fault: {
      name: 'memory-admits-a-unit-too-many',
      file: 'src/core/algorithms/window-log.ts',
      find: 'const remaining = Math.max(limit - used, 0)',
      replace: 'const remaining = Math.max(limit + 1 - used, 0)',
    },
    says: new RegExp(`FAIL .*> ${PLACE}`),
  },
  // For each part that is soaked, of which only its own callers say so.
  ...SOAK_FAULTS.map((fault) => ({
    command: 'test:soak',
    args: run('test:soak', '--hours', '0.033'),
    fault,
    says: /[1-9]\d* windows above the limit$/,
  })),
]
