"""RASP programs: the names and the meaning of Tracr's `rasp` module.

>>> from kleene import rasp
>>> reverse = rasp.Aggregate(rasp.Select(rasp.indices, rasp.length - rasp.indices - 1, rasp.Comparison.EQ), rasp.tokens)
>>> reverse("abc")
['c', 'b', 'a']
"""

from kleene.rasp.counting import CRasp as CRasp
from kleene.rasp.counting import Fragment as Fragment
from kleene.rasp.counting import crasp as crasp
from kleene.rasp.counting import leftmost as leftmost
from kleene.rasp.counting import rightmost as rightmost
from kleene.rasp.evaluation import CausalEvaluator as CausalEvaluator
from kleene.rasp.evaluation import DefaultRASPEvaluator as DefaultRASPEvaluator
from kleene.rasp.evaluation import evaluate as evaluate
from kleene.rasp.evaluation import evaluate_causally as evaluate_causally
from kleene.rasp.expressions import DEFAULT_ANNOTATORS as DEFAULT_ANNOTATORS
from kleene.rasp.expressions import Aggregate as Aggregate
from kleene.rasp.expressions import AggregateFirst as AggregateFirst
from kleene.rasp.expressions import AggregateLast as AggregateLast
from kleene.rasp.expressions import AggregateMax as AggregateMax
from kleene.rasp.expressions import AggregateMin as AggregateMin
from kleene.rasp.expressions import Annotator as Annotator
from kleene.rasp.expressions import Comparison as Comparison
from kleene.rasp.expressions import ConstantSelector as ConstantSelector
from kleene.rasp.expressions import ConstantSOp as ConstantSOp
from kleene.rasp.expressions import Encoding as Encoding
from kleene.rasp.expressions import Full as Full
from kleene.rasp.expressions import IndicesType as IndicesType
from kleene.rasp.expressions import LengthType as LengthType
from kleene.rasp.expressions import LinearSequenceMap as LinearSequenceMap
from kleene.rasp.expressions import Map as Map
from kleene.rasp.expressions import NumericValue as NumericValue
from kleene.rasp.expressions import Predicate as Predicate
from kleene.rasp.expressions import RASPExpr as RASPExpr
from kleene.rasp.expressions import Select as Select
from kleene.rasp.expressions import Selector as Selector
from kleene.rasp.expressions import SelectorAnd as SelectorAnd
from kleene.rasp.expressions import SelectorNot as SelectorNot
from kleene.rasp.expressions import SelectorOr as SelectorOr
from kleene.rasp.expressions import SelectorValue as SelectorValue
from kleene.rasp.expressions import SelectorWidth as SelectorWidth
from kleene.rasp.expressions import SequenceMap as SequenceMap
from kleene.rasp.expressions import SOp as SOp
from kleene.rasp.expressions import TokensType as TokensType
from kleene.rasp.expressions import Value as Value
from kleene.rasp.expressions import annotate as annotate
from kleene.rasp.expressions import categorical as categorical
from kleene.rasp.expressions import default_encoding as default_encoding
from kleene.rasp.expressions import default_name as default_name
from kleene.rasp.expressions import get_encoding as get_encoding
from kleene.rasp.expressions import indices as indices
from kleene.rasp.expressions import is_categorical as is_categorical
from kleene.rasp.expressions import is_numerical as is_numerical
from kleene.rasp.expressions import length as length
from kleene.rasp.expressions import numerical as numerical
from kleene.rasp.expressions import selector_and as selector_and
from kleene.rasp.expressions import selector_not as selector_not
from kleene.rasp.expressions import selector_or as selector_or
from kleene.rasp.expressions import sop_not as sop_not
from kleene.rasp.expressions import tokens as tokens
from kleene.rasp.notation import RaspFile as RaspFile
from kleene.rasp.notation import parse as parse
from kleene.rasp.notation import parse_file as parse_file
from kleene.rasp.program import to_program as to_program
from kleene.rasp.validation import Finding as Finding
from kleene.rasp.validation import validate as validate
