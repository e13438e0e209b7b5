import { answerEnd } from '../../../answer.js'

export const GET = answerEnd
